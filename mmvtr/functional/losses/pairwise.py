"""Losses with one term per entry of a text x video matrix, and labels of unannotated pairs."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.values import arrays_too, check_one_of

__all__ = [
    'binary_cross_entropy',
    'binary_cross_entropy_sum',
    'masked_mean',
    'mixed_labels',
    'pseudo_positives',
]

#: Divisors of a sum over pairs, from the matrix.
REDUCTIONS = dict(mean=Tensor.numel, sum=lambda x: 1, items=lambda x: x.shape[1])


@arrays_too
def binary_cross_entropy(
    scores: Tensor,
    labels: Tensor,
    *,
    scale: float | Tensor = 1.0,
    bias: float | Tensor = 0.0,
    weights: Optional[Tensor] = None,
    reduction: str = 'mean',
) -> Tensor:
    """Return the pairwise sigmoid loss: cross-entropy of ``scale * scores + bias`` and labels.

    It is three losses:

    - DVTR's matching probability, with positives and in-batch negatives (Eq. 11 has positives only,
      and is minimised by calling everything a match).  The classes are not balanced: p is then the
      probability of a match in a batch, far below saturation, and the ratio of two p separates
      pairs better.
    - SigLIP (Zhai et al., ICCV 2023) and ProLIP (Chun et al., ICLR 2025): labels of +-1, here
      bools, and ``reduction='items'``.
    - PCME++ (Chun, ICLR 2024): soft labels, and a negative distance as the score,
      ``reduction='mean'``.

    Args:
        scores: float [T, V].
        labels: bool [T, V], or float [T, V] in [0, 1].
        scale, bias: numbers or 0-dim tensors.
        weights: float [T, V] or None, factors of the negative part, 1 - y for a label y.
        reduction: ``'mean'`` over all pairs, ``'sum'``, or ``'items'``: the sum divided by the
            number of videos, which equals that of texts in a batch of pairs.

    Returns:
        0-dim tensor; 0 for an empty matrix.

    Raises:
        ValueError: unknown reduction, or shapes that differ.

    Example:
        Zero logits: log 2 per pair, and two pairs per item. ::

            >>> binary_cross_entropy(torch.zeros(2, 2), torch.eye(2).bool())
            tensor(0.6931)
            >>> binary_cross_entropy(torch.zeros(2, 2), torch.eye(2), reduction='items')
            tensor(1.3863)
    """
    check_one_of(REDUCTIONS, reduction=reduction)
    if labels.shape != scores.shape:
        raise ValueError(
            f'labels {list(labels.shape)} must have the shape of scores {list(scores.shape)}'
        )
    logits = scores * scale + bias
    if labels.dtype == torch.bool and weights is None:
        total = binary_cross_entropy_sum(logits, labels.nonzero(as_tuple=True))
    else:
        terms = F.softplus(logits) - labels.to(logits.dtype) * logits
        if weights is not None:
            # Only the negative part of a soft label is weighted.
            y = labels.to(logits.dtype)
            terms = y * F.softplus(-logits) + weights * (1 - y) * F.softplus(logits)
        total = terms.sum()
    return total / max(REDUCTIONS[reduction](logits), 1)


@arrays_too
def binary_cross_entropy_sum(logits: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
    """Return the sum of :func:`binary_cross_entropy` terms, from the positives' indices, int64 [P].

    Example:
        ::

            >>> pairs = torch.eye(2).nonzero(as_tuple=True)
            >>> binary_cross_entropy_sum(torch.zeros(2, 2), pairs)  # 4 log 2
            tensor(2.7726)
    """
    return _BernoulliSum.apply(logits, *pairs)


class _BernoulliSum(torch.autograd.Function):
    """Sum of -log(1 - p) over all entries, plus -logit = -log p + log(1 - p) over positives."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(logits, rows, columns)
        # torch's softplus takes ten times as long as a logarithm.  With q = min(p, 1 - p) it equals
        # the positive part of the logit minus log(1 - q), and the rounding error of 1 - q is added
        # back.
        p = logits.sigmoid()
        q = torch.minimum(p, 1 - p)
        rest = 1 - q
        lost = ((1 - rest) - q) / rest
        total = logits.clamp_min(0).sum() - rest.log().sum() - lost.sum()
        return total - logits[rows, columns].sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        logits, rows, columns = ctx.saved_tensors
        grads = logits.sigmoid() * grad
        grads.index_put_((rows, columns), -grad, accumulate=True)
        return grads, None, None


@arrays_too
def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of ``x`` [...] where ``mask`` (same shape, bool); 0 if the mask is empty.

    Example:
        ::

            >>> masked_mean(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1, 1, 0]).bool())
            tensor(1.5000)
    """
    return x.masked_fill(~mask, 0.0).sum() / mask.sum().clamp_min(1)


@arrays_too
def pseudo_positives(scores: Tensor, labels: Tensor) -> Tensor:
    """Give each row's columns that score at least as high as its match the match's label.

    The match is the column of the largest label; of several, the first, as in the official code.  A
    column with a smaller label that scores as high (the partner in a mix) is raised, too.  Rows
    without a label above 0 stay as they are.

    Args:
        scores: float [N, M]; no gradient is taken.
        labels: bool or float [N, M] in [0, 1].

    Returns:
        same shape and dtype as ``labels``.

    Example:
        ::

            >>> labels = torch.tensor([[1.0, 0.0, 0.0]])
            >>> pseudo_positives(torch.tensor([[0.5, 0.7, 0.1]]), labels)
            tensor([[1., 1., 0.]])
    """
    if not labels.numel():
        return labels
    largest, match = labels.to(torch.uint8 if labels.dtype == torch.bool else labels.dtype).max(1)
    reached = (scores >= scores.gather(1, match[:, None])) & (largest > 0)[:, None]
    return torch.where(reached, largest[:, None].to(labels.dtype), labels)


@arrays_too
def mixed_labels(
    labels: Tensor, share: Tensor, partner: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """Return the labels of videos that are mixed with another video of the batch.

    ``share y + (1 - share) y[:, partner]``, with y moved by ``smoothing`` towards 1/2: 1 becomes
    1 - smoothing, and 0 smoothing.

    Args:
        labels: bool or float [T, V].
        share: float [V] in [0, 1], fraction of the video itself.
        partner: int64 [V], the column of the other video.
        smoothing: in [0, 1/2].

    Returns:
        float [T, V].

    Example:
        ::

            >>> share, partner = torch.tensor([0.75, 1.0]), torch.tensor([1, 0])
            >>> mixed_labels(torch.eye(2).bool(), share, partner)
            tensor([[0.7500, 0.0000],
                    [0.2500, 1.0000]])
    """
    y = labels.to(share.dtype)
    y = y * (1 - 2 * smoothing) + smoothing
    return share * y + (1 - share) * y[:, partner]
