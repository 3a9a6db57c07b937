"""The v2t half of :mod:`mmvtr.functional.ranking` where texts come in strips.

An anchor of that direction is a video, or a video with one of its texts; its positive may lie in
one strip and its negatives in all.  A hinge is linear where it is not 0.  So terms are made with
the anchor's score s_p held fixed, and what its gradient is, the weight of the terms that are not 0,
is a number an anchor that adds up over strips as the terms do.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.ranking_terms import Choice, Part, inside


class Own(NamedTuple):
    """What strips know of the positives of all V videos, or (``'own'``) of P annotated pairs.

    Attributes:
        scores: float [P], s of the pairs; ``'mean'``: [V], sums; ``'hardest'``: [V], minima.
        which: int64 [P], their videos; else [V], how many.
    """

    scores: Tensor
    which: Tensor


class Anchors(NamedTuple):
    """A of them.

    Attributes:
        columns: int64 [A], their videos.
        scores: float [A], s_p.
    """

    columns: Tensor
    scores: Tensor


class ColumnTerms(NamedTuple):
    """Sums over the entries of A anchors, of a strip or of several.

    Attributes:
        terms: float [A], with s_p held fixed.
        slope: float [A], by how much they fall where s_p grows; no gradient.
        chosen: int64 [A], terms.
        others: int64 [A], entries that are no match of the anchor's video.
    """

    terms: Tensor
    slope: Tensor
    chosen: Tensor
    others: Tensor


def own_scores(scores: Tensor, positives: Tensor, positive: str) -> Own:
    """Of a strip's texts.

    Args:
        scores: float [R, V].
        positives: bool [R, V].
        positive: see :func:`~mmvtr.functional.ranking.ranking`.

    Example:
        ::

            >>> own_scores(torch.tensor([[0.5, 0.1], [0.3, 0.2]]), torch.eye(2).bool(), 'mean')
            Own(scores=tensor([0.5000, 0.2000]), which=tensor([1, 1]))
    """
    if positive == 'own':
        pairs = positives.nonzero(as_tuple=True)
        return Own(scores[pairs], pairs[1])
    if positive == 'mean':
        return Own(scores.masked_fill(~positives, 0.0).sum(0), positives.sum(0))
    if not len(scores):
        return Own(scores.sum(0) + math.inf, positives.sum(0))
    return Own(scores.masked_fill(~positives, math.inf).amin(0), positives.sum(0))


def join_own(parts: Sequence[Own], positive: str) -> Own:
    """Of strips in the order of their texts, [P] or [V].

    Example:
        ::

            >>> part = Own(torch.tensor([0.5]), torch.tensor([1]))
            >>> join_own([part, part], 'mean')
            Own(scores=tensor([1.]), which=tensor([2]))
    """
    scores, which = zip(*parts)
    if positive == 'own':
        return Own(torch.cat(scores), torch.cat(which))
    if positive == 'mean':
        return Own(sum(scores), sum(which))
    return Own(torch.stack(scores).amin(0), sum(which))


def anchors_of(own: Own, positive: str, *, lone: Optional[float] = None) -> Anchors:
    """Of all strips.

    Args:
        own: of all of them.
        positive: as for :func:`own_scores`.
        lone: s_p of a video without positives; None: it is no anchor.

    Returns:
        A of them, float [A] and int64 [A].

    Example:
        The sum of two, and a video without a text. ::

            >>> anchors_of(Own(torch.tensor([1.0, 0.0]), torch.tensor([2, 0])), 'mean')
            Anchors(columns=tensor([0]), scores=tensor([0.5000]))
    """
    if positive == 'own':
        return Anchors(own.which, own.scores)
    scores, none = own.scores, own.which == 0
    if positive == 'mean':
        scores = scores / own.which.clamp_min(1)
    if lone is not None:
        return Anchors(torch.arange(len(none), device=none.device), scores.masked_fill(none, lone))
    columns = (~none).nonzero(as_tuple=True)[0]
    return Anchors(columns, scores[columns])


def best_negatives(part: Part, anchors: Anchors, choice: Choice) -> tuple[Tensor, Tensor]:
    """Of a strip: score float [A] and text int64 [A], from 0, of each anchor's ``'hardest'`` or
    ``'semi_hard'`` negative; -inf where it has none.

    Example:
        ::

            >>> from mmvtr.functional.ranking_terms import Choice, Part
            >>> part = Part(torch.eye(2), torch.eye(2).bool(), *torch.ones(2, 2, 2))
            >>> anchors = Anchors(torch.tensor([0, 1]), torch.ones(2))
            >>> best_negatives(part, anchors, Choice(negatives='hardest'))
            (tensor([0., 0.]), tensor([1, 0]))
    """
    scores, own, _, weights = (x[:, anchors.columns] for x in part[:4])
    candidates = ~own & (weights != 0)
    if choice.negatives == 'semi_hard':
        candidates = candidates & (scores < anchors.scores)
    if not len(scores):
        return scores.sum(0) - math.inf, own.sum(0)
    return tuple(scores.masked_fill(~candidates, -math.inf).max(0))


def best_sum(parts: Sequence[Part], anchors: Anchors) -> tuple[Tensor, Tensor]:
    """As :func:`best_negatives`: the negative with the largest sum of the terms of all parts.

    Example:
        The first part takes the one, both together the other. ::

            >>> from mmvtr.functional.ranking_terms import Part
            >>> given = torch.tensor([[0.5], [0.4]]), torch.zeros(2, 1).bool()
            >>> margins = torch.zeros(2, 1), torch.tensor([[0.0], [0.3]])
            >>> parts = [Part(*given, margin, torch.ones(2, 1)) for margin in margins]
            >>> best_sum(parts, Anchors(torch.tensor([0]), torch.tensor([0.2])))
            (tensor([0.7000]), tensor([1]))
    """
    total = 0.0
    for part in parts:
        scores, own, margin, weights = (x[:, anchors.columns] for x in part[:4])
        cut = inside(scores, margin, weights, anchors.scores, 'hinge')
        total = total + weights * cut.clamp_min(0)
    if not len(total):
        return total.sum(0) - math.inf, own.sum(0)
    return tuple(total.masked_fill(own, -math.inf).max(0))


def column_terms(
    part: Part, anchors: Anchors, choice: Choice, chosen: Optional[Tensor] = None
) -> ColumnTerms:
    """Of a strip.

    Args:
        part: R texts.
        anchors: of all strips, their scores without gradient.
        choice: of the loss.
        chosen: int64 [A], the one text of the strip that counts, below 0 or from R on: none of
            them; None = all negatives.

    Returns:
        Float and int64 [A].

    Example:
        Only video 1 has its anchor here, and only video 0 a negative. ::

            >>> from mmvtr.functional.ranking_terms import Choice, Part
            >>> scores, own = torch.tensor([[0.9, 0.5]]), torch.tensor([[0, 1]]).bool()
            >>> part = Part(scores, own, torch.full((1, 2), 0.2), torch.ones(1, 2))
            >>> anchors = Anchors(torch.tensor([0, 1]), torch.tensor([1.0, 0.5]))
            >>> column_terms(part, anchors, Choice()).terms
            tensor([0.1000, 0.0000])
    """
    scores, own, margin, weights = (x[:, anchors.columns] for x in part[:4])
    counts = ~own & (weights != 0)
    if chosen is not None:
        counts = counts & (torch.arange(len(scores), device=scores.device)[:, None] == chosen)
    cut = inside(scores, margin, weights, anchors.scores, choice.weight_on)
    terms, slope = cut.clamp_min(0), (cut >= 0).to(cut.dtype)
    if choice.weight_on == 'hinge':
        terms, slope = weights * terms, weights.detach() * slope
    terms, slope = (x.masked_fill(~counts, 0.0).sum(0) for x in (terms, slope))
    return ColumnTerms(terms, slope, counts.sum(0), (~own).sum(0))


def from_column_terms(sums: ColumnTerms, scores: Tensor, average: str) -> tuple[Tensor, Tensor]:
    """As :func:`~mmvtr.functional.ranking_terms.row_terms`, of the videos.

    Args:
        sums: over all strips.
        scores: float [A], s_p, with its gradient.
        average: see :func:`~mmvtr.functional.ranking.ranking`.

    Example:
        ::

            >>> sums = ColumnTerms(*torch.tensor([[0.4], [2.0], [2.0], [3.0]]))
            >>> from_column_terms(sums, torch.tensor([0.5]), 'entries')
            (tensor(0.4000), tensor(3.))
    """
    terms = sums.terms - sums.slope * (scores - scores.detach())
    if average == 'anchors':
        count = torch.tensor(len(terms), device=terms.device)
        return (terms / sums.chosen.clamp_min(1)).sum(), count
    return terms.sum(), (sums.chosen if average == 'terms' else sums.others).sum()
