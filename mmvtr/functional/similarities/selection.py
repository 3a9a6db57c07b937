"""The best-scored candidates of each row, the same ones on every machine."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too

__all__ = ['highest']


@arrays_too
def highest(scores: Tensor, candidates: Tensor, k: int) -> Tensor:
    """The ``k`` best-scored candidates of each row; of equal scores the leftmost come first.

    Args:
        scores: float [T, V].
        candidates: bool [T, V].
        k: most entries a row.

    Returns:
        bool [T, V], at most ``k`` True in a row, all of them candidates.

    Raises:
        ValueError: k < 1.

    Example:
        ::

            >>> highest(torch.tensor([[0.9, 0.5, 0.5]]), torch.tensor([[0, 1, 1]]).bool(), 1)
            tensor([[False,  True, False]])
    """
    if k < 1:
        raise ValueError(f'k must be at least 1, not {k}')
    if k >= scores.shape[1]:
        return candidates
    ordered = scores.detach().masked_fill(~candidates, -math.inf)
    best = ordered.argsort(dim=1, descending=True, stable=True)[:, :k]
    return torch.zeros_like(candidates).scatter_(1, best, True) & candidates
