"""A memory bank: the last K keys of one modality, as further candidates for a batch."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from mmvtr.functional.values import check_range
from mmvtr.structures import Embedding, Levels

#: Name of the level of Gaussians, and of the buffers that hold it.
GAUSSIAN = 'gaussian'
#: Video id of an empty row.
NOBODY = -1


class MemoryBank(nn.Module):
    """A first-in-first-out queue of K rows, saved with the model and never trained.

    Args:
        size: K.
        widths: D of each level, by name.
        gaussian: D of the level ``'gaussian'`` (mean and log standard deviation); None: no such
            level.

    Attributes:
        pushed: int64 0-dim, number of keys ever pushed; the next one takes row ``pushed % K``.
        video: int64 [K], the training video of each row, -1 for an empty row.

    Raises:
        ValueError: a size below 1.
    """

    def __init__(
        self, size: int, widths: dict[str, int], *, gaussian: Optional[int] = None
    ) -> None:
        super().__init__()
        check_range('[1, inf]', size=size)
        self.size = size
        self.names = tuple(widths)
        self.register_buffer('pushed', torch.zeros((), dtype=torch.long))
        self.register_buffer('video', torch.full((size,), NOBODY))
        for name, width in widths.items():
            self.register_buffer(f'mean_{name}', torch.zeros(size, width))
        self.has_gaussian = gaussian is not None
        if self.has_gaussian:
            self.register_buffer(f'mean_{GAUSSIAN}', torch.zeros(size, gaussian))
            self.register_buffer(f'log_std_{GAUSSIAN}', torch.zeros(size, gaussian))

    def __len__(self) -> int:
        """Return the number of filled rows."""
        return min(int(self.pushed), self.size)

    @property
    def levels(self) -> Levels:
        """All K rows, filled or not; views of the buffers, which the next push changes."""
        levels = {name: Embedding(getattr(self, f'mean_{name}')) for name in self.names}
        if self.has_gaussian:
            mean, log_std = (getattr(self, f'{x}_{GAUSSIAN}') for x in ('mean', 'log_std'))
            levels[GAUSSIAN] = Embedding(mean, log_std=log_std)
        return levels

    @torch.no_grad()
    def push(self, levels: Levels, video: Tensor) -> None:
        """Add N keys in order; the oldest keys are overwritten.

        Args:
            levels: levels of the N keys, with means for all levels of the bank.
            video: int64 [N], the training video of each.
        """
        count, newest = len(video), slice(max(0, len(video) - self.size), None)
        rows = (self.pushed + torch.arange(count, device=self.video.device)[newest]) % self.size
        self.video[rows] = video[newest]
        for name in self.names:
            self._put(f'mean_{name}', rows, levels[name].mean[newest])
        if self.has_gaussian:
            self._put(f'mean_{GAUSSIAN}', rows, levels[GAUSSIAN].mean[newest])
            self._put(f'log_std_{GAUSSIAN}', rows, levels[GAUSSIAN].log_std[newest])
        self.pushed += count

    def _put(self, name: str, rows: Tensor, values: Tensor) -> None:
        buffer = getattr(self, name)
        buffer[rows] = values.to(buffer.dtype)
