"""One term per entry of a text x video matrix, positives against the rest."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.precision import at_least_float32


def bernoulli(logits: Tensor, positives: Tensor) -> Tensor:
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

            >>> bernoulli(torch.zeros(2, 2), torch.eye(2).bool())
            tensor(0.6931)
    """
    total = bernoulli_sum(logits, positives.nonzero(as_tuple=True))
    return total / max(logits.numel(), 1)


def bernoulli_sum(logits: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
    """As :func:`bernoulli`, summed, from the rows and columns of the positives, int64 [P] each.

    Example:
        ::

            >>> bernoulli_sum(torch.zeros(2, 2), torch.eye(2).nonzero(as_tuple=True))  # 4 log 2
            tensor(2.7726)
    """
    logits = at_least_float32(logits)
    # -log(1 - p) of every entry, and -log p + log(1 - p) = -logit of the few positives.
    return F.softplus(logits, threshold=40).sum() - logits[pairs].sum()


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of float ``x`` [...] where ``mask`` (same shape, bool); 0 where the mask is empty.

    Example:
        ::

            >>> masked_mean(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1, 1, 0]).bool())
            tensor(1.5000)
    """
    return x.masked_fill(~mask, 0.0).sum() / mask.sum().clamp_min(1)
