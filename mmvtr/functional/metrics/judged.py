"""Metrics of rankings in which only some pairs have been judged.

Unjudged candidates can count as wrong (:func:`precision_at`), leave the list (:func:`condensed`) or
be skipped (:func:`bpref`).  All take scores [T, V] and a ``dim`` as :mod:`.ranks` does.  Ties get
their expected value; :func:`untied` applies any other rule.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.metrics.relevance import (
    expected_gains,
    group_sums,
    precision_by_place,
    queries,
    rank_rows,
)
from mmvtr.functional.values import arrays_too, check_range

__all__ = ['bpref', 'condensed', 'map_at_r', 'precision_at', 'r_precision', 'untied']


@arrays_too
def precision_at(scores: Tensor, relevant: Tensor, k: int, *, dim: int = 1) -> Tensor:
    """Return the share of the first ``k`` places that hold a relevant candidate.

    With judged candidates in place of relevant ones it is the share judged, Judged@k.

    Args:
        scores: float [T, V], higher is better.
        relevant: bool [T, V].
        k: places, from 1; a shorter list is divided by k all the same.
        dim: dimension of the candidates: 1 = videos for text queries, 0 = texts for video queries.

    Returns:
        float64 [Q] in [0, 1]; 0 if nothing is relevant.

    Raises:
        ValueError: a score is NaN, ``k`` is below 1.

    Example:
        ::

            >>> precision_at(torch.tensor([[.9, .5, .1]]), torch.tensor([[1, 0, 1]]).bool(), 2)
            tensor([0.5000], dtype=torch.float64)
    """
    check_range('[1, inf)', k=k)
    return torch.cat([_hits(*part)[:, :k].sum(1) / k for part in queries(scores, relevant, dim)])


@arrays_too
def r_precision(scores: Tensor, relevant: Tensor, *, dim: int = 1) -> Tensor:
    """Return the precision at as many places as the query has relevant candidates (TREC's Rprec).

    Args:
        scores: float [T, V], higher is better.
        relevant: bool [T, V].
        dim: as :func:`precision_at`, which has the same errors.

    Returns:
        float64 [Q] in [0, 1]; NaN if nothing is relevant.

    Example:
        Two are relevant, one of them is among the first two. ::

            >>> r_precision(torch.tensor([[.9, .5, .1]]), torch.tensor([[1, 0, 1]]).bool())
            tensor([0.5000], dtype=torch.float64)
    """
    return torch.cat([_to_r(_hits(*part), part[1]) for part in queries(scores, relevant, dim)])


@arrays_too
def map_at_r(scores: Tensor, relevant: Tensor, *, dim: int = 1) -> Tensor:
    """Return AP of the first R places, R = the number of relevant candidates, divided by R.

    Musgrave, Belongie and Lim, "A Metric Learning Reality Check" (ECCV 2020); what ECCV Caption
    (Chun et al., ECCV 2022) reports as mAP@R.

    Args:
        scores: float [T, V], higher is better.
        relevant: bool [T, V].
        dim: as :func:`precision_at`, which has the same errors.

    Returns:
        float64 [Q] in [0, 1]; NaN if nothing is relevant.

    Example:
        Of two relevant ones the first place holds one, the second none: (1/1 + 0) / 2. ::

            >>> map_at_r(torch.tensor([[.9, .5, .1]]), torch.tensor([[1, 0, 1]]).bool())
            tensor([0.5000], dtype=torch.float64)
    """
    return torch.cat([_map_at_r(*part) for part in queries(scores, relevant, dim)])


@arrays_too
def bpref(scores: Tensor, relevant: Tensor, judged: Tensor, *, dim: int = 1) -> Tensor:
    """Return bpref, which falls with the candidates judged wrong that rank above relevant ones.

    Buckley and Voorhees, "Retrieval Evaluation with Incomplete Information" (SIGIR 2004), in the
    form of trec_eval: the mean over the R relevant candidates of ``1 - min(n, R) / min(R, N)``,
    with n of the N wrong candidates above it.  Unjudged candidates do not matter.

    Args:
        scores: float [T, V], higher is better.
        relevant: bool [T, V].
        judged: bool [T, V]; a judged pair that is not relevant is wrong.
        dim: as :func:`precision_at`, which has the same errors.

    Returns:
        float64 [Q] in [0, 1]; NaN if nothing is relevant.

    Example:
        One wrong one above the second of two relevant ones: (1 + 0) / 2. ::

            >>> relevant, judged = torch.tensor([[1, 0, 0, 1]]), torch.tensor([[1, 0, 1, 1]])
            >>> bpref(torch.tensor([[.9, .8, .5, .1]]), relevant.bool(), judged.bool())
            tensor([0.5000], dtype=torch.float64)
    """
    grades = relevant.to(torch.int8) - (judged & ~relevant).to(torch.int8)
    return torch.cat([_bpref(*part) for part in queries(scores, grades, dim)])


@arrays_too
def condensed(scores: Tensor, keep: Tensor, *, dim: int = 1) -> Tensor:
    """Return scores that keep the order of the kept candidates, and rank the others below them.

    Any metric of them is that of the list without unjudged candidates (Sakai, "Alternatives to
    Bpref", SIGIR 2007), or without annotated ones.

    Args:
        scores: float [T, V], higher is better.
        keep: bool [T, V].
        dim: as :func:`precision_at`, which has the same errors.

    Returns:
        float32 [T, V], negative places; dropped candidates are tied.

    Example:
        ::

            >>> condensed(torch.tensor([[.9, .5, .1]]), torch.tensor([[0, 1, 1]]).bool())
            tensor([[-4., -1., -2.]])
    """
    parts = [_places(*part) for part in queries(scores, keep, dim)]
    return torch.cat(parts) if dim == 1 else torch.cat(parts).t()


@arrays_too
def untied(scores: Tensor, first: Tensor, *, dim: int = 1) -> Tensor:
    """Return scores without ties: among tied candidates a higher ``first`` comes first.

    The relevance as ``first`` is the optimistic rule, its negative the pessimistic one, and the
    place of an item's id in alphabetical order is trec_eval's.

    Args:
        scores: float [T, V], higher is better.
        first: number [T, V], or [1, V] or [T, 1] if it does not depend on the query or the item.
        dim: as :func:`precision_at`, which has the same errors.

    Returns:
        float32 [T, V], negative places.

    Example:
        ::

            >>> untied(torch.tensor([[.9, .5, .9]]), torch.tensor([[0, 1, 1]]))
            tensor([[-1., -2.,  0.]])
    """
    parts = [_order(*part) for part in queries(scores, first.expand(scores.shape), dim)]
    return torch.cat(parts) if dim == 1 else torch.cat(parts).t()


def _hits(scores: Tensor, relevant: Tensor) -> Tensor:
    """Return the probability that a place holds a relevant candidate: float64 [Q, C]."""
    ranking = rank_rows(scores)
    return expected_gains(relevant.gather(1, ranking.order).double(), ranking)


def _to_r(of_places: Tensor, relevant: Tensor) -> Tensor:
    """Return the sum over the first R places, divided by R; NaN if R = 0."""
    count = relevant.sum(1, keepdim=True)
    inside = torch.arange(relevant.shape[1], device=relevant.device) < count
    return ((of_places * inside).sum(1, keepdim=True) / count)[:, 0]


def _map_at_r(scores: Tensor, relevant: Tensor) -> Tensor:
    ranking = rank_rows(scores)
    hits = relevant.gather(1, ranking.order).double()
    return _to_r(precision_by_place(hits, hits, ranking), relevant)


def _bpref(scores: Tensor, grades: Tensor) -> Tensor:
    """Return bpref; ``grades``: 1 = relevant, -1 = wrong, 0 = not judged.

    A relevant candidate tied with m wrong ones has 0 to m of them above it, each equally likely.
    """
    ranking = rank_rows(scores)
    grades = grades.gather(1, ranking.order)
    relevant, wrong = (grades == 1).double(), (grades == -1).double()
    above, tied = group_sums(wrong, ranking)
    most = relevant.sum(1, keepdim=True)
    few = (most - above).clamp(min=0).minimum(tied + 1)  # how many of 0..m stay below R
    capped = few * above + few * (few - 1) / 2 + (tied + 1 - few) * most
    expected = capped / (tied + 1)
    least = most.minimum(wrong.sum(1, keepdim=True)).clamp(min=1)
    return (relevant * (1 - expected / least)).sum(1) / most[:, 0].where(most[:, 0] > 0, torch.nan)


def _places(scores: Tensor, keep: Tensor) -> Tensor:
    ranking = rank_rows(scores)
    places = torch.empty_like(scores, dtype=torch.float32)
    places.scatter_(1, ranking.order, -ranking.first.float())
    return places.masked_fill_(~keep, -1.0 - scores.shape[1])


def _order(scores: Tensor, first: Tensor) -> Tensor:
    order = first.argsort(dim=1, descending=True, stable=True)
    again = scores.gather(1, order).argsort(dim=1, descending=True, stable=True)
    places = torch.arange(0, -scores.shape[1], -1, dtype=torch.float32, device=scores.device)
    order = order.gather(1, again)
    return torch.empty_like(scores, dtype=torch.float32).scatter_(1, order, places.expand_as(order))
