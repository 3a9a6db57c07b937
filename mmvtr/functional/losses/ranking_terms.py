"""Terms of the losses in :mod:`.ranking`, for a whole matrix or for some rows."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.similarities.best_frames import highest
from mmvtr.functional.values import at_least_float32, check_one_of, check_shapes


class TermChoice(NamedTuple):
    """Options that are the same in all parts and directions of a loss, [T, V] or [V, T].

    Attributes:
        weight_on, negatives, pool, positive, average, generator: see
            :func:`~mmvtr.functional.losses.ranking.margin_ranking`.
    """

    weight_on: str = 'hinge'
    negatives: str = 'all'
    pool: Optional[int] = None
    positive: str = 'own'
    average: str = 'terms'
    generator: Optional[torch.Generator] = None


class Part(NamedTuple):
    """The matrices from which a ranking loss computes its terms, over all or over ambiguous pairs.

    Attributes:
        scores: float [T, V].
        positives: bool [T, V], pairs that should rank first.
        margin: float [T, V], by how much a positive should exceed this negative.
        weights: float [T, V], of the negatives' terms.
        ahead: float [T, V], scores of the positives minus their own margins; None: they have none.
    """

    scores: Tensor
    positives: Tensor
    margin: Tensor
    weights: Tensor
    ahead: Optional[Tensor] = None

    def t(self) -> 'Part':
        """Return the part with videos as anchors, [V, T] each."""
        return Part(*(None if x is None else x.t() for x in self))

    @property
    def leads(self) -> Tensor:
        """The positives' scores s_p, float [T, V]."""
        return self.scores if self.ahead is None else self.ahead


def check_choice(choice: TermChoice, direction: str) -> None:
    """Raise ValueError unless the options and the direction are known.

    Raises:
        ValueError: names the unknown value and the known ones.

    Example:
        ::

            >>> check_choice(TermChoice(negatives='hardest'), 'both')
    """
    check_one_of(('all', 'hardest', 'semi_hard', 'random'), negatives=choice.negatives)
    if choice.pool is not None and (choice.negatives != 'random' or choice.pool < 1):
        raise ValueError(
            "pool must be at least 1 and needs negatives='random', got "
            f'{choice.pool} with {choice.negatives!r}'
        )
    check_one_of(('hinge', 'score'), weight_on=choice.weight_on)
    check_one_of(('own', 'mean', 'hardest'), positive=choice.positive)
    check_one_of(('terms', 'anchors', 'entries'), average=choice.average)
    check_one_of(('t2v', 'v2t', 'both'), direction=direction)


def parts_of(
    scores: Tensor,
    positives: Tensor,
    *,
    margin: float | Tensor,
    weights: Optional[Tensor] = None,
    ambiguous: Optional[Tensor] = None,
    ambiguous_margin: float | Tensor = 0.1,
) -> list[Part]:
    """Return the parts whose terms the loss sums; over all texts or some of them.

    Args:
        scores, positives, margin, weights, ambiguous, ambiguous_margin: float or bool [T, V], see
            :func:`~mmvtr.functional.losses.ranking.margin_ranking`.

    Returns:
        One part, or two if ambiguous entries have terms of their own.

    Raises:
        ValueError: shapes that differ.

    Example:
        ::

            >>> (part,) = parts_of(torch.eye(2), torch.eye(2).bool(), margin=0.2)
            >>> part.weights
            tensor([[1., 1.],
                    [1., 1.]])
    """
    check_shapes(scores=scores, positives=positives)
    scores = at_least_float32(scores)
    weights = torch.ones_like(scores) if weights is None else weights.to(scores.dtype)
    parts = [(weights, margin)]
    if ambiguous is not None:
        clear = weights.masked_fill(ambiguous, 0.0)
        parts = [(clear, margin), (weights.masked_fill(~ambiguous, 0.0), ambiguous_margin)]
    like = dict(dtype=scores.dtype, device=scores.device)
    return [
        Part(scores, positives, torch.as_tensor(m, **like).expand_as(scores), w) for w, m in parts
    ]


def of_parts(
    parts: Sequence[Part], direction: str, terms: Callable[[Part], tuple[Tensor, Tensor]]
) -> Tensor:
    """Return the loss of some parts.

    Args:
        parts: see :func:`parts_of`.
        direction: ``'t2v'``, ``'v2t'`` or ``'both'``, the mean of the two.
        terms: returns the sum of the terms of a part's rows, and its divisor.

    Returns:
        0-dim tensor.

    Example:
        ::

            >>> own = torch.tensor([[1, 0]]).bool()
            >>> parts = parts_of(torch.tensor([[0.5, 0.6]]), own, margin=0.2)
            >>> of_parts(parts, 't2v', lambda part: row_terms(part, TermChoice()))
            tensor(0.3000)
    """
    values = []
    for part in parts:
        # Videos first: the order in which random negatives are drawn.
        ways = [] if direction == 't2v' else [part.t()]
        ways += [] if direction == 'v2t' else [part]
        means = [total / count.clamp_min(1) for total, count in map(terms, ways)]
        values.append(sum(means) / len(means))
    return sum(values)


def row_terms(part: Part, choice: TermChoice) -> tuple[Tensor, Tensor]:
    """Return the sum of the terms with rows as anchors, and its divisor; 0-dim both.

    For ``average='anchors'``: the sum of the anchors' means, and the number of anchors.

    Example:
        ::

            >>> (part,) = parts_of(torch.eye(2) / 2, torch.eye(2).bool(), margin=0.6)
            >>> row_terms(part, TermChoice())
            (tensor(0.2000), tensor(2))
    """
    row, anchor = _anchors(part.leads, part.positives, choice.positive)
    s, matched, m, w = (x[row] for x in part[:4])
    chosen = ~matched & (w != 0)
    if choice.negatives != 'all':
        chosen = _choose_one(s, chosen, anchor, choice)
    terms = _inside(s, m, w, anchor[:, None], choice.weight_on).clamp_min(0)
    if choice.weight_on == 'hinge':
        terms = w * terms
    terms = terms.masked_fill(~chosen, 0.0)
    if choice.average == 'terms':
        return terms.sum(), chosen.sum()
    if choice.average == 'entries':
        return terms.sum(), (~matched).sum()
    total = (terms.sum(1) / chosen.sum(1).clamp_min(1)).sum()
    return total, torch.tensor(len(row), device=total.device)


def hinge_row_terms(
    scores: Tensor,
    positives: Tensor,
    weights: Tensor,
    hinges: Sequence[tuple[float, Tensor]],
    *,
    negatives: str,
    average: str,
) -> tuple[Tensor, Tensor]:
    """Return :func:`row_terms` for :func:`~mmvtr.functional.losses.ranking.several_hinges`.

    Args:
        scores, positives, weights: float and bool [T, V].
        hinges: w_h and m_h, float [T, V].
        negatives, average: see there.

    Example:
        ::

            >>> own = torch.eye(2).bool()
            >>> hinges = [(2.0, torch.full((2, 2), 0.6))]
            >>> how = dict(negatives='all', average='matrix')
            >>> hinge_row_terms(torch.eye(2) / 2, own, torch.ones(2, 2), hinges, **how)
            (tensor(0.4000), tensor(4))
    """
    row, column = positives.nonzero(as_tuple=True)
    lead = scores[row] - scores[row, column][:, None]
    terms = sum(w * (m[row] + lead).clamp_min(0) for w, m in hinges)
    matches = positives[row]
    terms = (terms * weights[row]).masked_fill(matches, 0.0)
    if negatives == 'hardest':
        total = terms.amax(1).sum() if terms.numel() else terms.sum()
        return total, torch.tensor(len(row), device=total.device)
    count = (~matches).sum()
    return terms.sum(), count if average == 'terms' else count.new_tensor(matches.numel())


def _inside(scores: Tensor, margin: Tensor, weights: Tensor, anchor: Tensor, on: str) -> Tensor:
    """Return the hinge's argument, ``m + s_n - s_p`` or ``m + w s_n - s_p`` (``on='score'``)."""
    return margin + (scores if on == 'hinge' else weights * scores) - anchor


def _anchors(scores: Tensor, positives: Tensor, positive: str) -> tuple[Tensor, Tensor]:
    """Return the row index [A] and the positive score [A] of each anchor."""
    if positive == 'own':
        row, column = positives.nonzero(as_tuple=True)
        return row, scores[row, column]
    row = positives.any(1).nonzero(as_tuple=True)[0]
    matched = positives[row]
    if positive == 'mean':
        return row, scores[row].masked_fill(~matched, 0.0).sum(1) / matched.sum(1)
    if not len(row):
        return row, scores.new_zeros(0)
    return row, scores[row].masked_fill(~matched, float('inf')).amin(1)


def _choose_one(scores: Tensor, candidates: Tensor, anchor: Tensor, choice: TermChoice) -> Tensor:
    """Return the chosen negatives, bool [A, V] with at most one True a row."""
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
