"""How well scores of the parts of one video find the parts that people call relevant."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too

__all__ = ['interpolated_precision']


@arrays_too
def interpolated_precision(scores: Tensor, relevant: Tensor) -> Tensor:
    """Average precision of one ranked list as QVHighlights and Video2GIF measure it.

    A threshold is a score that some relevant part has.  Its precision is the best among those of
    this threshold and all lower ones; the mean is over thresholds, so relevant parts with one score
    count once (Lei et al., NeurIPS 2021; Gygli et al., CVPR 2016).

    Args:
        scores: float [C], higher is more relevant.
        relevant: bool [C].

    Example:
        ::

            >>> relevant = torch.tensor([True, False, True])
            >>> interpolated_precision(torch.tensor([.9, .8, .7]), relevant)
            tensor(0.8333, dtype=torch.float64)

    Returns:
        0-dim float64 in [0, 1]; 0 where no part is relevant.

    Raises:
        ValueError: no parts, lengths that differ, or a NaN.
    """
    if scores.ndim != 1 or scores.shape != relevant.shape or not len(scores):
        raise ValueError(
            f'one score a part expected, got {list(scores.shape)} and {list(relevant.shape)}'
        )
    if scores.isnan().any():
        raise ValueError('a score is NaN')
    levels, group = scores.unique(return_inverse=True)  # ascending
    found = torch.zeros(2, len(levels), dtype=torch.float64, device=scores.device)
    found[0].index_add_(0, group, relevant.double())
    found[1].index_add_(0, group, torch.ones_like(relevant, dtype=torch.float64))
    right, taken = found.flip(1).cumsum(1).flip(1)
    best = (right / taken).cummax(0).values
    own = found[0] > 0
    return best[own].mean() if own.any() else right.new_zeros(())
