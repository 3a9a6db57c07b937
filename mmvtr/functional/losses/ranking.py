"""The margin ranking losses of the papers, as one function.

For a text t, one of its positives p and one of its negatives n:

    w_tn [ m_tn + s_tn - s_tp ]_+
"""

from __future__ import annotations

from typing import Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.losses.ranking_terms import (
    TermChoice,
    check_choice,
    hinge_row_terms,
    of_parts,
    parts_of,
    row_terms,
)
from mmvtr.functional.values import arrays_too, check_one_of, check_shapes

__all__ = ['margin_ranking', 'several_hinges']


@arrays_too
def margin_ranking(
    scores: Tensor,
    positives: Tensor,
    *,
    margin: float | Tensor = 0.2,
    weights: Optional[Tensor] = None,
    ambiguous: Optional[Tensor] = None,
    ambiguous_margin: float | Tensor = 0.1,
    weight_on: str = 'hinge',
    negatives: str = 'all',
    pool: Optional[int] = None,
    positive: str = 'own',
    average: str = 'terms',
    direction: str = 'both',
    generator: Optional[torch.Generator] = None,
) -> Tensor:
    """Return the margin ranking (triplet) loss of a text x video score matrix.

    Special cases: DVTR Eq. 1 (no weights), Eq. 12 with ``weights`` = eta on the hinge, and
    literally (``weight_on='score'``); VSE++ (``negatives='hardest'``); CE's max-margin loss
    (``'all'``); ARL's dual triplet Eq. 11 + 12 (twice this, ``ambiguous``, ``average='anchors'``);
    MS-SL's loss (t2v and v2t of ``positive='mean'``, ``'random'``, late in training with a
    ``pool``).

    Args:
        scores: float [T, V]; half precision is computed in float32.
        positives: bool [T, V].
        margin: float or [T, V].
        weights: float [T, V] or None (= 1), the weight of each negative.  An entry of weight 0 is
            not a negative: it is never drawn and not counted.
        ambiguous: bool [T, V] or None.  They are removed from the negatives and form a separate
            loss with ``ambiguous_margin``, which is added (ARL Eq. 11).
        ambiguous_margin: float or [T, V].
        weight_on: ``'hinge'`` as in the module docstring; ``'score'`` gives ``[m + w s_tn -
            s_tp]_+``, literally DVTR Eq. 12, whose term grows as w falls if s_tn < 0.
        negatives: ``'all'``; ``'hardest'`` the best-scored one; ``'semi_hard'`` the best-scored one
            below the positive (terms without one are left out); ``'random'`` one, drawn uniformly.
        pool: ``'random'`` draws among this many best-scored negatives; None = among all.
        positive: ``'own'`` one term per annotated pair; ``'mean'`` or ``'hardest'`` (lowest score)
            of a row's positives, one term per row.
        average: ``'terms'``: the mean over all chosen (anchor, negative) terms; ``'anchors'``: each
            anchor's mean over its negatives, 0 where it has none, averaged over all anchors (the
            1/n of ARL Eq. 11-12, so that few ambiguous pairs give a small loss); ``'entries'``: the
            sum of the terms divided by all entries that are not matches of their anchor, including
            those of weight 0 (HGR's 1 / B(B - 1) where all negatives count).
        direction: ``'t2v'``, ``'v2t'`` or ``'both'``, the mean of the two.
        generator: for ``negatives='random'``; the same on all processes.

    Returns:
        0-dim tensor; 0 if there is no term.

    Raises:
        ValueError: an unknown choice, or shapes that differ.

    Example:
        Text 0 scores its video higher by half the margin, text 1 by much more. ::

            >>> scores = torch.tensor([[0.9, 0.8], [0.1, 0.7]])
            >>> margin_ranking(scores, torch.eye(2).bool(), margin=0.2, direction='t2v')
            tensor(0.0500)
    """
    choice = TermChoice(weight_on, negatives, pool, positive, average, generator)
    check_choice(choice, direction)
    parts = parts_of(
        scores,
        positives,
        margin=margin,
        weights=weights,
        ambiguous=ambiguous,
        ambiguous_margin=ambiguous_margin,
    )
    return of_parts(parts, direction, lambda part: row_terms(part, choice))


#: Divisors of the sum over all terms, see :func:`several_hinges`.
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
    """Return the loss with several hinges per pair, the mean of both directions of

        sum_h w_h [ m_h,tn + s_tn - s_tp ]_+

    for each annotated pair (t, p) and each n that is not a match of t.

    Args:
        scores: float [T, V]; half precision is computed in float32.
        positives: bool [T, V].
        hinges: H pairs of w_h and m_h, a number or float [T, V]; gradients flow through margins.
        weights: float [T, V] or None (= 1), weight of each negative.
        negatives: ``'all'``, or ``'hardest'``: for each annotated pair the negative with the
            largest sum, divided by the number of these pairs.
        average: for ``'all'``: ``'terms'``, the mean over all negatives, or ``'matrix'``, over all
            columns of all annotated pairs, in which matches count as 0.

    Returns:
        0-dim tensor; 0 if there is no term.

    Raises:
        ValueError: an unknown choice, or shapes that differ.

    Example:
        Text 0 prefers its video by half the smaller margin. ::

            >>> scores = torch.tensor([[0.9, 0.8], [0.1, 0.9]])
            >>> hinges = [(1.0, 0.2), (0.5, 0.3)]
            >>> several_hinges(scores, torch.eye(2).bool(), hinges)
            tensor(0.1000)
    """
    check_shapes(scores=scores, positives=positives)
    check_one_of(('all', 'hardest'), negatives=negatives)
    check_one_of(AVERAGES, average=average)
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
