"""A long video as windows of frames, one after another, as torchvision's video models see them."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from mmvtr.datasets.videos.frame_sampling import window_count, windows
from mmvtr.datasets.videos.transforms import LoadVideo
from mmvtr.datasets.videos.video_io import MAX_BYTES, BrokenVideoError, read_frames
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]

#: Frames that are decoded in one go: they are in memory as large as the file has them.
AT_ONCE = 256


@TRANSFORMS.register_module()
class LoadClips(LoadVideo):
    """Decode windows of frames of the file ``path`` to ``clips``, in place of LoadVideo.

    Of a video (or of the part from ``start`` to ``end``) there are n = duration / ``stride``
    windows, rounded and at least one, and window k stands for k/n to (k + 1)/n of it: it is centred
    there, but for the first and the last, which stay inside the video.  A video shorter than a
    window repeats its first and last frame.  Frames of a window, their rate, size and crop are
    those of the model's weights (:func:`~mmvtr.video_models.video_model`), and are made as
    torchvision makes them.

    Args:
        model: torchvision's name, as of the tower
            (:class:`~mmvtr.models.towers.torchvision_clips.TorchvisionClips`).
        stride: seconds from one window to the next; None = as long as a window.
        max_bytes: that all windows of a video may take, and the frames that they are made of.

    Raises:
        ValueError: no such model, a stride that is not positive.
    """

    def __init__(
        self, model: str, *, stride: Optional[float] = None, max_bytes: int = MAX_BYTES
    ) -> None:
        # Imports in seconds: only where it is used.
        from mmvtr.video_models import video_model

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
