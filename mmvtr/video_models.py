"""What torchvision says of its video models without building them: how their windows are made.

Size, mean and std are those of the transforms that come with a model's weights; how many frames a
window has, and how many of them a second, stand in the description of the weights.
"""

from __future__ import annotations

import difflib
import re
from typing import Any, NamedTuple


class VideoModel(NamedTuple):
    """How a video model of torchvision was trained to see a video.

    Attributes:
        name: torchvision's.
        resize: (height, width) that frames are scaled to, or (short side,).
        crop: (height, width) of the centre that is kept.
        mean, std: per RGB channel, of values in 0-1.
        frames: of a window.
        rate: frames a second of a window.
        fewest: frames that the network can do with.
    """

    name: str
    resize: tuple[int, ...]
    crop: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    frames: int
    rate: float
    fewest: int

    @property
    def seconds(self) -> float:
        """How long a window is."""
        return self.frames / self.rate


def weights_of(name: str) -> dict[str, Any]:
    """torchvision's weights of a video model, by tag.

    Raises:
        ValueError: it has no such model (close names are listed).
    """
    # Imports in seconds: only where it is used.
    from torchvision.models import get_model_weights, list_models, video

    names = list_models(module=video)
    if name not in names:
        close = difflib.get_close_matches(str(name), names, n=3) or names
        raise ValueError(f'torchvision has no video model {str(name)[:80]!r}; close names: {close}')
    return {weights.name: weights for weights in get_model_weights(name)}


def video_model(name: str) -> VideoModel:
    """How a model sees a video, the same for all of its weights.

    Args:
        name: ``'r3d_18'``, ``'s3d'``, ``'mvit_v2_s'``, ``'swin3d_t'`` ...

    Raises:
        ValueError: see :func:`weights_of`; weights that differ in it, or that do not say it.
    """
    known = {_described(name, weights) for weights in weights_of(name).values()}
    if len(known) > 1:
        raise ValueError(f'the weights of {name!r} want their windows differently: {sorted(known)}')
    return known.pop()


def _described(name: str, weights: Any) -> VideoModel:
    transforms, meta = weights.transforms(), weights.meta
    said = {
        key: re.search(rf'`{key}=([0-9.]+)`', meta.get('_docs', ''))
        for key in ('clip_len', 'frame_rate')
    }
    if None in said.values():
        raise ValueError(f'torchvision does not say of how many frames a window of {weights} is')
    return VideoModel(
        name,
        tuple(transforms.resize_size),
        tuple(transforms.crop_size),
        tuple(transforms.mean),
        tuple(transforms.std),
        int(said['clip_len'][1]),
        float(said['frame_rate'][1]),
        meta.get('min_temporal_size', 1),
    )
