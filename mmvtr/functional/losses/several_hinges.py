"""A ranking loss with several margins for each pair at once (CMGSD; He et al., SIGIR 2021)."""

from __future__ import annotations

from typing import Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.losses.ranking_terms import hinge_row_terms
from mmvtr.functional.precision import at_least_float32

__all__ = ['several_hinges']

#: What the sum over all terms can be divided by, see :func:`several_hinges`.
AVERAGES = ('terms', 'matrix')


@arrays_too
def several_hinges(
    scores: Tensor,
    positives: Tensor,
    hinges: Sequence[tuple[float, float | Tensor]],
    *,
    weights: Optional[Tensor] = None,
    negatives: str = 'all',
    average: str = 'terms',
) -> Tensor:
    """Mean of both directions of

        sum_h w_h [ m_h,tn + s_tn - s_tp ]_+

    for each annotated pair (t, p) and each n that is no match of t.

    Args:
        scores: float [T, V]; half precision is computed in float32.
        positives: bool [T, V].
        hinges: H pairs of w_h and m_h, a number or float [T, V]; gradients flow through margins.
        weights: float [T, V] or None (= 1), of each negative.
        negatives: ``'all'``, or ``'hardest'``: of each annotated pair the negative with the largest
            sum, divided by the number of these pairs.
        average: of ``'all'``: ``'terms'`` the mean over all negatives, or ``'matrix'``, over all
            columns of all annotated pairs: what is a match counts as 0.

    Returns:
        0-dim tensor; 0 where there is no term.

    Raises:
        ValueError: an unknown choice, or shapes that differ.

    Example:
        Text 0 prefers its video by half the smaller margin. ::

            >>> scores = torch.tensor([[0.9, 0.8], [0.1, 0.9]])
            >>> hinges = [(1.0, 0.2), (0.5, 0.3)]
            >>> several_hinges(scores, torch.eye(2).bool(), hinges)
            tensor(0.1000)
    """
    if scores.shape != positives.shape:
        raise ValueError(
            f'scores {tuple(scores.shape)} and positives {tuple(positives.shape)} differ'
        )
    for name, value, known in (
        ('negatives', negatives, ('all', 'hardest')),
        ('average', average, AVERAGES),
    ):
        if value not in known:
            raise ValueError(f'{name} must be one of {known}, not {value!r}')
    scores = at_least_float32(scores)
    weights = torch.ones_like(scores) if weights is None else weights.to(scores.dtype)
    margins = [torch.as_tensor(m, dtype=scores.dtype, device=scores.device) for _, m in hinges]
    matrices = [scores, positives, weights, *(m.expand_as(scores) for m in margins)]
    factors = [w for w, _ in hinges]
    ways = (
        hinge_row_terms(
            *some[:3], list(zip(factors, some[3:])), negatives=negatives, average=average
        )
        for some in (matrices, [x.t() for x in matrices])
    )
    return sum(total / count.clamp_min(1) for total, count in ways) / 2
