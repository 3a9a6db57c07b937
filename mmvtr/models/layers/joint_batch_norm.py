"""Batch normalisation with the statistics of the joint batch, on any device."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from mmvtr.dist import sum_processes
from mmvtr.functional.values import at_least_float32

#: Minimal number of rows for a variance.
ENOUGH = 2


class JointBatchNorm1d(nn.BatchNorm1d):
    """Batch normalisation over the valid rows of all processes.

    Values, gradients and running statistics are those of one process with the joint batch: means
    and squared deviations are summed over processes, which may hold different numbers of rows,
    even none.  In training all of them must therefore call it equally often.  (PyTorch's
    SyncBatchNorm is for CUDA only.)  State-dict keys are those of ``nn.BatchNorm1d``.

    One call can normalise several groups of rows, each separately; the running statistics are then
    updated as by successive calls.  A group of fewer than two rows in the joint batch has no
    variance: it is normalised by the running statistics, and does not update them.

    Args:
        num_features: C.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__(num_features)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Normalise the rows.

        Args:
            x: float [N, C], or [G, N, C]: G groups of N rows.
            mask: bool [N] or [G, N], the rows that count; None: all.  Other rows are not read.

        Returns:
            float of the same shape, at least float32; rows that do not count are normalised as rows
            of zeros.

        Raises:
            ValueError: another shape.
        """
        if x.dim() not in (2, 3) or x.shape[-1] != self.num_features:
            raise ValueError(
                f'JointBatchNorm1d takes [N, {self.num_features}] or [G, N, {self.num_features}], '
                f'got {list(x.shape)}'
            )
        x = at_least_float32(x)
        if mask is None:
            mask = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        else:
            x = x.masked_fill(~mask[..., None], 0)
        mean, variance = self.running_mean, self.running_var
        if self.training:
            groups, masks = (x, mask) if x.dim() == 3 else (x[None], mask[None])
            mean, variance = self._of_batch(groups, masks)
            if x.dim() == 2:
                mean, variance = mean[0], variance[0]
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias

    def _of_batch(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Compute mean and variance [G, 1, C] over processes; x [G, N, C] is 0 outside ``mask``."""
        count = mask.sum(1, keepdim=True).to(x.dtype)
        sums = sum_processes(torch.cat([count, x.sum(1)], 1))
        count = sums[:, :1].detach()
        mean = sums[:, 1:] / count.clamp_min(1)
        deviation = (x - mean[:, None]).masked_fill(~mask[..., None], 0)
        variance = sum_processes(deviation.square().sum(1)) / count.clamp_min(1)
        enough = count >= ENOUGH
        # Copy, because the running statistics are updated in place and autograd saves its inputs.
        used = [
            torch.where(enough, batch, running.clone())[:, None]
            for batch, running in ((mean, self.running_mean), (variance, self.running_var))
        ]
        self._move(mean.detach(), variance.detach(), count, enough)
        return used[0], used[1]

    @torch.no_grad()
    def _move(self, mean: Tensor, variance: Tensor, count: Tensor, enough: Tensor) -> None:
        """Update the running statistics by all groups with a variance, in order."""
        counted = enough.to(self.running_mean)
        later = counted.flip(0).cumsum(0).flip(0) - counted
        shares = counted * self.momentum * (1 - self.momentum) ** later
        old = (1 - self.momentum) ** counted.sum()
        unbiased = variance * count / (count - 1).clamp_min(1)
        for running, batch in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.mul_(old).add_((shares * batch).sum(0))
        self.num_batches_tracked += enough.sum()
