"""One term per entry of a text x video matrix, positives against the rest."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.precision import at_least_float32


def bernoulli(logits: Tensor, positives: Tensor, *, balanced: bool = True) -> Tensor:
    """Binary cross-entropy of match logits.

    DVTR's matching probability, read soundly: positives and in-batch negatives both count
    (Eq. 11 has positives only, and is minimised by calling everything a match).

    Args:
        logits: float [T, V], log odds of a match.
        positives: bool [T, V].
        balanced: the mean over positives plus the mean over negatives, halved; False gives the
            plain mean over entries, in which B pairs face B^2 - B negatives.

    Returns:
        0-dim tensor.
    """
    logits = at_least_float32(logits)
    terms = F.binary_cross_entropy_with_logits(logits, positives.to(logits.dtype), reduction='none')
    if not balanced:
        return terms.mean() if terms.numel() else terms.sum()
    return (masked_mean(terms, positives) + masked_mean(terms, ~positives)) / 2


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of ``x`` where ``mask`` (same shape, bool); 0 where the mask is empty."""
    return x.masked_fill(~mask, 0.0).sum() / mask.sum().clamp_min(1)
