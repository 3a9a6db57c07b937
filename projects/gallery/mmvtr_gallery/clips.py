"""torchvision's video models as towers, and the frame windows that they take as input.

Configs name both with ``custom_imports=dict(imports=['mmvtr_gallery.clips'])``.  Size,
mean, std, frames and rate of a window come from the weights of a model, without building it.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor, nn

from mmvtr.datasets.videos.frame_sampling import TIME_SLACK
from mmvtr.datasets.videos.transforms import LoadVideo
from mmvtr.datasets.videos.video_io import MAX_BYTES, BrokenVideoError, read_frames
from mmvtr.errors import UserError
from mmvtr.models.towers.base import Tower
from mmvtr.registry import MODELS, TRANSFORMS
from mmvtr.storage.weights import check_weights, read_checkpoint, unwrapped

Results = dict[str, Any]


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
        """Return the duration of a window."""
        return self.frames / self.rate


def weights_of(name: str) -> dict[str, Any]:
    """Return torchvision's weights of a video model, by tag.

    Raises:
        ValueError: torchvision has no such model (close names are listed).
    """
    # Import here: it takes seconds.
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
        raise ValueError(
            f'the weights of {name!r} need windows made in different ways: {sorted(known)}'
        )
    return known.pop()


def _described(name: str, weights: Any) -> VideoModel:
    transforms, meta = weights.transforms(), weights.meta
    settings = {
        key: re.search(rf'`{key}=([0-9.]+)`', meta.get('_docs', ''))
        for key in ('clip_len', 'frame_rate')
    }
    if None in settings.values():
        raise ValueError(f'torchvision does not say how many frames a window of {weights} has')
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


def windows(times: np.ndarray, *, length: int, rate: float, stride: float) -> np.ndarray:
    """Return windows of equally spaced frames that cover a clip, about one every ``stride`` s.

    Window k of n stands for k/n to (k + 1)/n of the clip and is centred there.  One that would
    begin before the clip, or end after it, is moved inside; if the clip is shorter than a window,
    the first and the last frame are repeated.

    Args:
        times: seconds, float64 [N]; the last frame lasts as long as the others do on average.
        length: L, frames of a window.
        rate: frames of a window per second.
        stride: seconds between windows.

    Returns:
        Indices of the frames on screen, int64 [n, L]; n = duration / stride, rounded, at least 1.
    """
    begin, duration, span = times[0], _seconds(times), length / rate
    n = window_count(times, stride)
    starts = (np.arange(n) + 0.5) * duration / n - span / 2
    if span < duration:
        starts = starts.clip(0, duration - span)
    # Sample at the middle of each frame's slot; a frame that begins exactly then is included.
    ticks = begin + starts[:, None] + (np.arange(length) + 0.5) / rate + TIME_SLACK
    return (np.searchsorted(times, ticks, side='right') - 1).clip(0, len(times) - 1)


def window_count(times: np.ndarray, stride: float) -> int:
    """Return the number of :func:`windows`, limited against broken timestamps."""
    return max(1, round(_seconds(times) / stride))


def _seconds(times: np.ndarray) -> float:
    gap = (times[-1] - times[0]) / max(1, len(times) - 1)
    return float(times[-1] + gap - times[0])


#: Number of frames decoded at a time, as they are held in memory at the file's resolution.
AT_ONCE = 256


@TRANSFORMS.register_module()
class LoadClips(LoadVideo):
    """Decode frame windows of the file ``path`` into ``clips``; replaces LoadVideo.

    A video (or its part from ``start`` to ``end``) has n = duration / ``stride``

    windows, rounded and at least one. Window k stands for k/n to (k + 1)/n of it and is centred
    there, except that the first and the last stay inside the video.  A video shorter than a window
    repeats its first and last frame.  The number of frames of a window, their rate, size and crop
    are those of the model's weights (:func:`video_model`), and the preprocessing is torchvision's.

    Args:
        model: torchvision's name, the same as the tower's (:class:`TorchvisionClips`).
        stride: seconds from one window to the next; None = as long as a window.
        max_bytes: memory limit for all windows of a video, and for the frames that they are made
            of.

    Raises:
        ValueError: no such model, a stride that is not positive.
    """

    def __init__(
        self, model: str, *, stride: Optional[float] = None, max_bytes: int = MAX_BYTES
    ) -> None:
        self.model = video_model(model)
        self.stride = self.model.seconds if stride is None else stride
        if not self.stride > 0:
            raise ValueError(f'LoadClips: stride must be above 0 s, not {str(stride)[:80]}')
        self.max_bytes = max_bytes

    def transform(self, results: Results) -> Results:
        """Set ``clips``, uint8 [n, L, 3, H, W], from ``path``; raises :class:`BrokenVideoError`."""
        parts: list[Tensor] = []
        whole = np.empty((1, self.model.frames), dtype=np.int64)
        step = max(1, AT_ONCE // self.model.frames)
        first = 0
        while first < len(whole):

            def select(times: np.ndarray, first: int = first) -> np.ndarray:
                nonlocal whole
                model = self.model
                self._check_memory(window_count(times, self.stride))
                whole = windows(times, length=model.frames, rate=model.rate, stride=self.stride)
                return np.unique(whole[first : first + step])

            frames = self._sized(results, select)
            wanted = whole[first : first + step]
            place = np.searchsorted(np.unique(wanted), wanted)
            parts.append(frames[torch.from_numpy(place)])
            first += step
        results['clips'] = torch.cat(parts)
        return results

    def _sized(self, results: Results, select: Any) -> Tensor:
        """Return the selected frames preprocessed without mean and std, uint8 [F, 3, H, W]."""
        from torchvision.transforms import functional

        frames = read_frames(
            results['path'],
            select,
            start=results.get('start'),
            end=results.get('end'),
            max_bytes=self.max_bytes,
        )
        images = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)
        images = functional.resize(images, list(self.model.resize), antialias=False)
        return functional.center_crop(images, list(self.model.crop))

    def _check_memory(self, count: int) -> None:
        need = 3 * count * self.model.frames * self.model.crop[0] * self.model.crop[1]
        if need > self.max_bytes:
            raise BrokenVideoError(
                f'{count:,} windows of {self.model.name} take '
                f'{1e-9 * need:.3g} GB, more than the {1e-9 * self.max_bytes:.3g} GB of max_bytes; '
                f'a stride above {self.stride:g} s makes fewer'
            )


#: Names of the layer that predicts the classes, which is removed; D is its widest input.
HEADS = ('fc', 'classifier', 'head')


@MODELS.register_module()
class TorchvisionClips(Tower):
    """A torchvision video model (R3D, R(2+1)D, MC3, S3D, MViT, Video Swin) without classifier.

    Its windows come from :class:`LoadClips` with the same ``model``.  The parameters keep
    torchvision's names, prefixed with ``net.``.

    Args:
        model: torchvision's name: ``'r3d_18'``, ``'r2plus1d_18'``, ``'s3d'``, ``'mvit_v2_s'``,
            ``'swin3d_t'`` ...
        pretrained: a tag of its weights (``'KINETICS400_V1'``), a local file of them (also of a
            model with other classes), or None for random weights.
        frozen: no gradients, always in eval mode.

    Raises:
        FileNotFoundError: ``pretrained`` looks like a file that does not exist.
        RuntimeError: the tag's weights cannot be downloaded; a file that cannot be read.
        ValueError: no such model or tag; weights of another model (names what differs).

    Attributes:
        dim: D.
        image_size: (height, width) of the frames.
        image_mean, image_std: 3 floats each, RGB, of values in 0-1.
        window: (fewest, most) frames of a window; most None = any number.
    """

    def __init__(
        self, model: str, pretrained: Optional[str] = None, *, frozen: bool = False
    ) -> None:
        # Import here: it takes seconds.
        from torchvision.models import get_model
        from torchvision.models.video.mvit import MViT

        super().__init__(frozen=frozen)
        known = video_model(model)
        self.net = get_model(model, weights=None)
        self.head = next(name for name in HEADS if hasattr(self.net, name))
        self.dim = _width(getattr(self.net, self.head))
        setattr(self.net, self.head, nn.Identity())
        self.image_size, self.image_mean, self.image_std = known.crop, known.mean, known.std
        # MViT has one position embedding per frame.
        self.window = known.fewest, known.fewest if isinstance(self.net, MViT) else None
        if pretrained is not None:
            self._load(model, pretrained)
        self.apply_frozen()

    def forward(self, x: Tensor) -> Tensor:
        """Encode normalised windows, float [N, L, 3, H, W] -> float [N, D].

        Raises:
            ValueError: single frames, frames of another size, or too few or too many in a window.
        """
        fewest, most = self.window
        length = x.shape[1] if x.ndim == 5 else 0
        if x.shape[2:] != (3, *self.image_size) or not fewest <= length <= (most or length):
            raise ValueError(
                f'TorchvisionClips takes windows [N, {fewest}{"" if most else " or more"}, 3, '
                f'{self.image_size[0]}, {self.image_size[1]}], got {list(x.shape)}: the video '
                'pipeline must be LoadClips of the same model'
            )
        return self.net(x.transpose(1, 2)).flatten(1)

    def _load(self, model: str, pretrained: str) -> None:
        path = _local(model, pretrained)
        state = read_checkpoint(path, kind='weights')['state_dict']
        own = self.net.state_dict()
        state = unwrapped(state, own.__contains__, path)
        state = {key: x for key, x in state.items() if not key.startswith(f'{self.head}.')}
        try:
            self.net.load_state_dict(check_weights(self.net, state, path))
        except RuntimeError as error:
            raise ValueError(f'pretrained weights of {model!r}: {error}') from error


def _width(head: nn.Module) -> int:
    """Return the input width of the classifier's first layer."""
    layers = [layer for layer in head.modules() if isinstance(layer, (nn.Linear, nn.Conv3d))]
    return layers[0].in_features if isinstance(layers[0], nn.Linear) else layers[0].in_channels


def _local(model: str, pretrained: str) -> str:
    """Return the file of a tag's weights, downloaded if missing; a file is returned as is."""
    if os.path.isfile(pretrained):
        return pretrained
    if '/' in pretrained or os.path.splitext(pretrained)[1]:
        raise FileNotFoundError(f'pretrained={pretrained[:200]!r}: there is no such file')
    tags = weights_of(model)
    if pretrained not in tags:
        raise ValueError(f'{model!r} has no weights {pretrained[:80]!r}; its tags: {[*tags]}')
    return str(_fetch(tags[pretrained]))


def _fetch(weights: Any) -> Path:
    name = weights.url.rpartition('/')[2]
    path = Path(torch.hub.get_dir(), 'checkpoints', name)
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = re.search(r'-([0-9a-f]{8,})\.', name)
    try:
        torch.hub.download_url_to_file(weights.url, str(path), digest and digest[1])
    except Exception as error:  # the network can raise anything
        raise UserError(
            f'the weights {weights} are neither in the cache ({str(path)[-150:]}) nor can they be '
            f'downloaded: {str(error)[:80]} ... Copy the file there from a machine with network, '
            'or give its path as pretrained='
        ) from error
    return path
