"""One margin ranking loss for all papers.

For a text t, one of its positives p and one of its negatives n:

    w_tn [ m_tn + s_tn - s_tp ]_+
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.precision import at_least_float32


def ranking(
    scores: Tensor,
    positives: Tensor,
    *,
    margin: float | Tensor = 0.2,
    weights: Optional[Tensor] = None,
    weight_on: str = 'hinge',
    negatives: str = 'all',
    positive: str = 'own',
    direction: str = 'both',
    generator: Optional[torch.Generator] = None,
) -> Tensor:
    """Margin ranking (triplet) loss of a text x video score matrix.

    Special cases: DVTR Eq. 1 (no weights), Eq. 12 read soundly (``weights`` = eta) and literally
    (``weight_on='score'``); VSE++ (``negatives='hardest'``); CE's max-margin loss (``'all'``).

    Args:
        scores: float [T, V]; half precision is computed in float32.
        positives: bool [T, V].
        margin: float or [T, V].
        weights: float [T, V] or None (= 1), the weight of each negative.
        weight_on: ``'hinge'`` as above; ``'score'`` gives ``[m + w s_tn - s_tp]_+``, the letter of
            DVTR Eq. 12, whose term grows as w falls where s_tn < 0.
        negatives: ``'all'``; ``'hardest'`` the best-scored one; ``'semi_hard'`` the best-scored one
            below the positive (terms without one are left out); ``'random'`` one, drawn uniformly.
        positive: ``'own'`` one term per annotated pair; ``'mean'`` or ``'hardest'`` (lowest score)
            of a row's positives, one term per row.
        direction: ``'t2v'``, ``'v2t'`` or ``'both'``, the mean of the two.
        generator: for ``negatives='random'``; the same on all processes.

    Returns:
        0-dim tensor: the mean over the chosen (anchor, negative) terms; 0 where there is none.

    Raises:
        ValueError: an unknown choice, or shapes that differ.
    """
    if scores.shape != positives.shape:
        raise ValueError(
            f'scores {tuple(scores.shape)} and positives {tuple(positives.shape)} differ'
        )
    _check('weight_on', weight_on, ('hinge', 'score'))
    _check('negatives', negatives, ('all', 'hardest', 'semi_hard', 'random'))
    _check('positive', positive, ('own', 'mean', 'hardest'))
    _check('direction', direction, ('t2v', 'v2t', 'both'))
    scores = at_least_float32(scores)
    weights = torch.ones_like(scores) if weights is None else weights.to(scores.dtype)
    margin = torch.as_tensor(margin, dtype=scores.dtype, device=scores.device).expand_as(scores)
    matrices = (scores, positives, margin, weights)
    choice = (weight_on, negatives, positive, generator)
    if direction == 't2v':
        return _rows(*matrices, *choice)
    v2t = _rows(*(x.t() for x in matrices), *choice)
    return v2t if direction == 'v2t' else (_rows(*matrices, *choice) + v2t) / 2


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f'{name} must be one of {choices}, not {value!r}')


def _rows(scores, positives, margin, weights, weight_on, negatives, positive, generator) -> Tensor:
    row, anchor = _anchors(scores, positives, positive)
    candidates = ~positives[row]
    s, m, w = scores[row], margin[row], weights[row]
    if negatives == 'all':
        chosen = candidates
    else:
        chosen = _choose_one(s, candidates, anchor, negatives, generator)
    if weight_on == 'hinge':
        terms = w * (m + s - anchor[:, None]).clamp_min(0)
    else:
        terms = (m + w * s - anchor[:, None]).clamp_min(0)
    return terms.masked_fill(~chosen, 0.0).sum() / chosen.sum().clamp_min(1)


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


def _choose_one(
    scores: Tensor,
    candidates: Tensor,
    anchor: Tensor,
    negatives: str,
    generator: Optional[torch.Generator],
) -> Tensor:
    """bool [A, V] with at most one True a row."""
    if scores.numel() == 0:
        return candidates
    if negatives == 'random':
        key = torch.rand(scores.shape, generator=generator, dtype=scores.dtype).to(scores.device)
    else:
        key = scores.detach()
    if negatives == 'semi_hard':
        candidates = candidates & (key < anchor.detach()[:, None])
    best = key.masked_fill(~candidates, -float('inf')).argmax(1, keepdim=True)
    return torch.zeros_like(candidates).scatter_(1, best, True) & candidates
