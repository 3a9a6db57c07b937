"""The input windows of torchvision's video models, without building the models.

Size, mean and std come from the transforms of a model's weights; the number of frames per window
and the frame rate come from the weights' description.
"""

from __future__ import annotations

import difflib
import re
from typing import Any, NamedTuple


class VideoModel(NamedTuple):
    """Preprocessing with which a torchvision video model was trained.

    Attributes:
        name: torchvision's name of the model.
        resize: (height, width) that frames are scaled to, or (short side,).
        crop: (height, width) of the centre crop.
        mean, std: per RGB channel, for values in 0-1.
        frames: number of frames per window.
        rate: frames per second in a window.
        fewest: smallest number of frames that the network accepts.
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
        """The duration of a window."""
        return self.frames / self.rate


def weights_of(name: str) -> dict[str, Any]:
    """Return torchvision's weights of a video model, by tag.

    Raises:
        ValueError: torchvision has no such model (close names are listed).
    """
    # The import takes seconds, so it is done only here.
    from torchvision.models import get_model_weights, list_models, video

    names = list_models(module=video)
    if name not in names:
        close = difflib.get_close_matches(str(name), names, n=3) or names
        raise ValueError(f'torchvision has no video model {str(name)[:80]!r}; close names: {close}')
    return {weights.name: weights for weights in get_model_weights(name)}


def video_model(name: str) -> VideoModel:
    """Return a model's preprocessing, which is the same for all of its weights.

    Args:
        name: ``'r3d_18'``, ``'s3d'``, ``'mvit_v2_s'``, ``'swin3d_t'`` ...

    Raises:
        ValueError: see :func:`weights_of`; weights whose preprocessing differs, or is not stated.
    """
    known = {_described(name, weights) for weights in weights_of(name).values()}
    if len(known) > 1:
        raise ValueError(f'the weights of {name!r} want their windows differently: {sorted(known)}')
    return known.pop()


def _described(name: str, weights: Any) -> VideoModel:
    transforms, meta = weights.transforms(), weights.meta
    settings = {
        key: re.search(rf'`{key}=([0-9.]+)`', meta.get('_docs', ''))
        for key in ('clip_len', 'frame_rate')
    }
    if None in settings.values():
        raise ValueError(f'torchvision does not say of how many frames a window of {weights} is')
    return VideoModel(
        name,
        tuple(transforms.resize_size),
        tuple(transforms.crop_size),
        tuple(transforms.mean),
        tuple(transforms.std),
        int(settings['clip_len'][1]),
        float(settings['frame_rate'][1]),
        meta.get('min_temporal_size', 1),
    )
