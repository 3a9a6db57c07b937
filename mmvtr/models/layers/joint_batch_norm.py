"""Batch normalisation by the statistics of the joint batch, on any device."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from mmvtr.dist import sum_processes
from mmvtr.functional.precision import at_least_float32

#: Rows that a spread needs.
ENOUGH = 2


class JointBatchNorm1d(nn.BatchNorm1d):
    """Batch normalisation that sees the rows of all processes, and only those that are there.

    Values, gradients and running statistics are those of one process with the joint batch: means
    and squared deviations are summed over processes, which may hold different numbers of rows,
    even none.  In training all of them must therefore call it equally often.  (PyTorch's
    SyncBatchNorm is for CUDA only.)  State-dict keys are those of ``nn.BatchNorm1d``.

    Groups of rows are normalised each by itself, in one call; the running statistics then move as
    if they had come one after the other.  A group of fewer than two rows in the joint batch has no
    spread: it is normalised by the running statistics, and moves nothing.

    Args:
        num_features: C.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__(num_features)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Normalise.

        Args:
            x: float [N, C], or [G, N, C]: G groups of N rows.
            mask: bool [N] or [G, N], the rows that count; None: all.  The others may hold anything.

        Returns:
            float of the same shape, at least float32; rows that do not count become what a row of
            zeros does.

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
        """[G, N, C], zero where [G, N] is False -> mean and variance [G, 1, C] over processes."""
        count = mask.sum(1, keepdim=True).to(x.dtype)
        sums = sum_processes(torch.cat([count, x.sum(1)], 1))
        count = sums[:, :1].detach()
        mean = sums[:, 1:] / count.clamp_min(1)
        deviation = (x - mean[:, None]).masked_fill(~mask[..., None], 0)
        variance = sum_processes(deviation.square().sum(1)) / count.clamp_min(1)
        enough = count >= ENOUGH
        # A copy: the running statistics move, and autograd keeps what it has read.
        used = [
            torch.where(enough, found, running.clone())[:, None]
            for found, running in ((mean, self.running_mean), (variance, self.running_var))
        ]
        self._move(mean.detach(), variance.detach(), count, enough)
        return used[0], used[1]

    @torch.no_grad()
    def _move(self, mean: Tensor, variance: Tensor, count: Tensor, enough: Tensor) -> None:
        """Running statistics after all groups that have a spread, in their order."""
        kept = enough.to(self.running_mean)
        later = kept.flip(0).cumsum(0).flip(0) - kept
        shares = kept * self.momentum * (1 - self.momentum) ** later
        old = (1 - self.momentum) ** kept.sum()
        unbiased = variance * count / (count - 1).clamp_min(1)
        for running, found in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.mul_(old).add_((shares * found).sum(0))
        self.num_batches_tracked += enough.sum()
