"""One margin ranking loss for all papers.

For a text t, one of its positives p and one of its negatives n:

    w_tn [ m_tn + s_tn - s_tp ]_+
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.precision import at_least_float32
from mmvtr.functional.selection import highest


class _Choice(NamedTuple):
    """What stays the same over the parts and directions of a loss."""

    weight_on: str
    negatives: str
    pool: Optional[int]
    positive: str
    average: str
    generator: Optional[torch.Generator]


def ranking(
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
    """Margin ranking (triplet) loss of a text x video score matrix.

    Special cases: DVTR Eq. 1 (no weights), Eq. 12 read soundly (``weights`` = eta) and literally
    (``weight_on='score'``); VSE++ (``negatives='hardest'``); CE's max-margin loss (``'all'``);
    ARL's dual triplet Eq. 11 + 12 (twice this, ``ambiguous``, ``average='anchors'``); that of
    MS-SL (t2v and v2t of ``positive='mean'``, ``'random'``, late in training with a ``pool``).

    Args:
        scores: float [T, V]; half precision is computed in float32.
        positives: bool [T, V].
        margin: float or [T, V].
        weights: float [T, V] or None (= 1), the weight of each negative.  An entry of weight 0 is
            no negative: it is never drawn and not counted.
        ambiguous: bool [T, V] or None.  They leave the negatives and form a loss of their own,
            with ``ambiguous_margin``, which is added (ARL Eq. 11).
        ambiguous_margin: float or [T, V].
        weight_on: ``'hinge'`` as above; ``'score'`` gives ``[m + w s_tn - s_tp]_+``, the letter of
            DVTR Eq. 12, whose term grows as w falls where s_tn < 0.
        negatives: ``'all'``; ``'hardest'`` the best-scored one; ``'semi_hard'`` the best-scored one
            below the positive (terms without one are left out); ``'random'`` one, drawn uniformly.
        pool: ``'random'`` draws among this many best-scored negatives; None = among all.
        positive: ``'own'`` one term per annotated pair; ``'mean'`` or ``'hardest'`` (lowest score)
            of a row's positives, one term per row.
        average: ``'terms'``: the mean over all chosen (anchor, negative) terms; ``'anchors'``: each
            anchor's mean over its negatives, 0 where it has none, averaged over all anchors (the
            1/n of ARL Eq. 11-12, so that few ambiguous pairs make a small loss); ``'entries'``: the
            sum of the terms divided by all entries that are no match of their anchor, also those
            of weight 0 (HGR's 1 / B(B - 1) where all negatives count).
        direction: ``'t2v'``, ``'v2t'`` or ``'both'``, the mean of the two.
        generator: for ``negatives='random'``; the same on all processes.

    Returns:
        0-dim tensor; 0 where there is no term.

    Raises:
        ValueError: an unknown choice, or shapes that differ.

    Example:
        Text 0 prefers its video by half the margin, text 1 by far. ::

            >>> scores = torch.tensor([[0.9, 0.8], [0.1, 0.7]])
            >>> ranking(scores, torch.eye(2).bool(), margin=0.2, direction='t2v')
            tensor(0.0500)
    """
    _check_choices(scores, positives, negatives, pool)
    _check('weight_on', weight_on, ('hinge', 'score'))
    _check('positive', positive, ('own', 'mean', 'hardest'))
    _check('average', average, ('terms', 'anchors', 'entries'))
    _check('direction', direction, ('t2v', 'v2t', 'both'))
    scores = at_least_float32(scores)
    weights = torch.ones_like(scores) if weights is None else weights.to(scores.dtype)
    choice = _Choice(weight_on, negatives, pool, positive, average, generator)
    parts = [(weights, margin)]
    if ambiguous is not None:
        clear = weights.masked_fill(ambiguous, 0.0)
        parts = [(clear, margin), (weights.masked_fill(~ambiguous, 0.0), ambiguous_margin)]
    return sum(_directions(scores, positives, w, m, direction, choice) for w, m in parts)


def _check_choices(scores: Tensor, positives: Tensor, negatives: str, pool: Optional[int]) -> None:
    if scores.shape != positives.shape:
        raise ValueError(
            f'scores {tuple(scores.shape)} and positives {tuple(positives.shape)} differ'
        )
    _check('negatives', negatives, ('all', 'hardest', 'semi_hard', 'random'))
    if pool is not None and (negatives != 'random' or pool < 1):
        raise ValueError(
            f"pool must be at least 1 and needs negatives='random', got {pool} with {negatives!r}"
        )


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f'{name} must be one of {choices}, not {value!r}')


def _directions(
    scores: Tensor,
    positives: Tensor,
    weights: Tensor,
    margin: float | Tensor,
    direction: str,
    choice: _Choice,
) -> Tensor:
    margin = torch.as_tensor(margin, dtype=scores.dtype, device=scores.device).expand_as(scores)
    matrices = (scores, positives, margin, weights)
    if direction == 't2v':
        return _rows(*matrices, choice)
    v2t = _rows(*(x.t() for x in matrices), choice)
    return v2t if direction == 'v2t' else (_rows(*matrices, choice) + v2t) / 2


def _rows(
    scores: Tensor, positives: Tensor, margin: Tensor, weights: Tensor, choice: _Choice
) -> Tensor:
    row, anchor = _anchors(scores, positives, choice.positive)
    s, m, w = scores[row], margin[row], weights[row]
    chosen = ~positives[row] & (w != 0)
    if choice.negatives != 'all':
        chosen = _choose_one(s, chosen, anchor, choice)
    if choice.weight_on == 'hinge':
        terms = w * (m + s - anchor[:, None]).clamp_min(0)
    else:
        terms = (m + w * s - anchor[:, None]).clamp_min(0)
    terms = terms.masked_fill(~chosen, 0.0)
    if choice.average == 'terms':
        return terms.sum() / chosen.sum().clamp_min(1)
    if choice.average == 'entries':
        return terms.sum() / (~positives[row]).sum().clamp_min(1)
    return (terms.sum(1) / chosen.sum(1).clamp_min(1)).sum() / max(len(row), 1)


def _anchors(scores: Tensor, positives: Tensor, positive: str) -> tuple[Tensor, Tensor]:
    """Row index [A] and positive score [A] of each anchor."""
    if positive == 'own':
        row, column = positives.nonzero(as_tuple=True)
        return row, scores[row, column]
    row = positives.any(1).nonzero(as_tuple=True)[0]
    own = positives[row]
    if positive == 'mean':
        return row, scores[row].masked_fill(~own, 0.0).sum(1) / own.sum(1)
    return row, scores[row].masked_fill(~own, float('inf')).amin(1) if len(
        row
    ) else scores.new_zeros(0)


def _choose_one(scores: Tensor, candidates: Tensor, anchor: Tensor, choice: _Choice) -> Tensor:
    """bool [A, V] with at most one True a row."""
    if scores.numel() == 0:
        return candidates
    if choice.pool is not None:
        candidates = highest(scores, candidates, choice.pool)
    if choice.negatives == 'random':
        key = torch.rand(scores.shape, generator=choice.generator, dtype=scores.dtype)
        key = key.to(scores.device)
    else:
        key = scores.detach()
    if choice.negatives == 'semi_hard':
        candidates = candidates & (key < anchor.detach()[:, None])
    best = key.masked_fill(~candidates, -float('inf')).argmax(1, keepdim=True)
    return torch.zeros_like(candidates).scatter_(1, best, True) & candidates
