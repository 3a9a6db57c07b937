"""One term per entry of a text x video matrix, positives against the rest."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mmvtr.functional.precision import at_least_float32

__all__ = ['binary_cross_entropy', 'binary_cross_entropy_sum', 'masked_mean']


def binary_cross_entropy(logits: Tensor, positives: Tensor) -> Tensor:
    """Binary cross-entropy of match logits, the mean over all entries.

    DVTR's matching probability, read soundly: positives and in-batch negatives both count
    (Eq. 11 has positives only, and is minimised by calling everything a match).  The classes are
    not balanced: p then is the odds of a match in a batch, far below saturation, and the ratio of
    two p tells pairs apart better.

    Args:
        logits: float [T, V], log odds of a match.
        positives: bool [T, V].

    Returns:
        0-dim tensor; 0 for an empty matrix.

    Example:
        Undecided: log 2. ::

            >>> binary_cross_entropy(torch.zeros(2, 2), torch.eye(2).bool())
            tensor(0.6931)
    """
    total = binary_cross_entropy_sum(logits, positives.nonzero(as_tuple=True))
    return total / max(logits.numel(), 1)


def binary_cross_entropy_sum(logits: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
    """As :func:`binary_cross_entropy`, summed, from rows and columns of the positives, int64 [P].

    Example:
        ::

            >>> pairs = torch.eye(2).nonzero(as_tuple=True)
            >>> binary_cross_entropy_sum(torch.zeros(2, 2), pairs)  # 4 log 2
            tensor(2.7726)
    """
    return _BernoulliSum.apply(at_least_float32(logits), *pairs)


class _BernoulliSum(torch.autograd.Function):
    """-log(1 - p) of every entry, and -log p + log(1 - p) = -logit of the few positives."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(logits, rows, columns)
        # torch's softplus takes ten logarithms' time.  With q = min(p, 1 - p) it is the positive
        # part of the logit less log(1 - q), and what 1 - q has lost of a small q is added.
        p = logits.sigmoid()
        q = torch.minimum(p, 1 - p)
        rest = 1 - q
        lost = ((1 - rest) - q) / rest
        total = logits.clamp_min(0).sum() - rest.log().sum() - lost.sum()
        return total - logits[rows, columns].sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        logits, rows, columns = ctx.saved_tensors
        found = logits.sigmoid() * grad
        found.index_put_((rows, columns), -grad, accumulate=True)
        return found, None, None


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of float ``x`` [...] where ``mask`` (same shape, bool); 0 where the mask is empty.

    Example:
        ::

            >>> masked_mean(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1, 1, 0]).bool())
            tensor(1.5000)
    """
    return x.masked_fill(~mask, 0.0).sum() / mask.sum().clamp_min(1)
