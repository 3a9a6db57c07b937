"""Metrics for queries with many or graded matches: AP, nDCG@K, precision@1, AUC.

Ties get the expected value over all their orders, so a metric of a constant matrix *is* its chance
level.  All take scores [T, V] and a ``dim`` as :mod:`.ranks` does, and return NaN for queries
without a match.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Union

import torch
from torch import Tensor

from mmvtr.functional.metrics.ranks import refuse_nan, tile_rows
from mmvtr.functional.values import arrays_too

__all__ = ['auc', 'average_precision', 'ndcg_at_k', 'precision_at_1']


@arrays_too
def average_precision(scores: Tensor, truth: Tensor, *, dim: int = 1) -> Tensor:
    """Return the mean precision at the ranks of a query's matches; its mean over queries is mAP.

    In a group of n tied candidates with r matches, after m candidates with q matches, place j
    (1..n) holds a match with probability r/n, whose expected precision is
    ``(q + 1 + (j-1)(r-1)/(n-1)) / (m + j)`` (McSherry and Najork, ECIR 2008).

    Args:
        scores: float [T, V], higher is better.
        truth: bool [T, V], all true matches.
        dim: dimension of the candidates: 1 = videos for text queries, 0 = texts for video queries.

    Example:
        Matches at ranks 1 and 3 of 3: (1/1 + 2/3) / 2. ::

            >>> average_precision(torch.tensor([[.9, .5, .1]]), torch.tensor([[1, 0, 1]]).bool())
            tensor([0.8333], dtype=torch.float64)

    Returns:
        float64 [Q] in [0, 1].

    Raises:
        ValueError: a score is NaN.
    """
    return torch.cat([_average_precision(*part) for part in queries(scores, truth, dim)])


def _average_precision(scores: Tensor, truth: Tensor) -> Tensor:
    ranking = rank_rows(scores)
    hits = truth.gather(1, ranking.order).double()
    return precision_at_hits(hits, hits, ranking)


@arrays_too
def ndcg_at_k(scores: Tensor, relevance: Tensor, *, k: int = 50, dim: int = 1) -> Tensor:
    """Return the discounted gain of the first ``k`` candidates over the best possible one.

    DCG = sum over ranks i <= k of relevance / log2(i + 1) (after Jarvelin and Kekalainen, TOIS
    2002); tied candidates share their mean relevance.  The full list (k = V) has a chance level of
    65-82 %, so keep k small.

    Args:
        scores: float [T, V], higher is better.
        relevance: float [T, V], >= 0.
        k: depth of the list.
        dim: dimension of the candidates, as in :func:`average_precision`.

    Example:
        The better of two relevant videos comes second: (.5/1 + 1/1.585) / (1/1 + .5/1.585). ::

            >>> ndcg_at_k(torch.tensor([[.9, .5, .1]]), torch.tensor([[.5, 1., 0.]]))
            tensor([0.8597], dtype=torch.float64)

    Returns:
        float64 [Q] in [0, 1]; NaN if nothing is relevant.

    Raises:
        ValueError: a score is NaN.
    """
    return torch.cat([_ndcg(*part, k) for part in queries(scores, relevance, dim)])


def _ndcg(scores: Tensor, relevance: Tensor, k: int) -> Tensor:
    ranking = rank_rows(scores)
    return share_of_best_gain(
        expected_gains(relevance.gather(1, ranking.order).double(), ranking), relevance, k
    )


@arrays_too
def precision_at_1(scores: Tensor, truth: Tensor, *, dim: int = 1) -> Tensor:
    """Return whether the top-scored candidate is a true match (the share of matches if it is tied).

    Args:
        scores: float [T, V], higher is better.
        truth: bool [T, V], all true matches.
        dim: dimension of the candidates, as in :func:`average_precision`.

    Example:
        ::

            >>> scores = torch.tensor([[.9, .9, .1], [.1, .2, .3]])
            >>> truth = torch.tensor([[1, 0, 0], [0, 0, 1]]).bool()
            >>> precision_at_1(scores, truth)
            tensor([0.5000, 1.0000], dtype=torch.float64)

    Returns:
        float64 [Q] in [0, 1]; NaN if a query has no match.

    Raises:
        ValueError: a score is NaN.
    """
    refuse_nan(scores)
    top = scores == scores.amax(dim, keepdim=True)
    share = (top & truth).sum(dim).double() / top.sum(dim)
    return share.where(truth.any(dim), torch.nan)


@arrays_too
def auc(positives: Tensor, negatives: Tensor) -> Tensor:
    """Return the area under the ROC curve: P(a positive scores above a negative), ties count half.

    Args:
        positives: float [P], scores of the class to detect.
        negatives: float [N], scores of the other class.

    Example:
        ::

            >>> auc(torch.tensor([.9, .5]), torch.tensor([.5, .1]))  # 3.5 of 4 pairs
            tensor(0.8750, dtype=torch.float64)

    Returns:
        0-dim float64 in [0, 1].

    Raises:
        ValueError: a class is empty.
    """
    if not len(positives) or not len(negatives):
        raise ValueError(
            f'AUC needs at least one positive and one negative, got {len(positives)} and '
            f'{len(negatives)}'
        )
    ordered = negatives.sort().values
    below = torch.searchsorted(ordered, positives).double()
    not_above = torch.searchsorted(ordered, positives, right=True).double()
    return (below + not_above).mean() / (2 * len(negatives))


def queries(scores: Tensor, target: Tensor, dim: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield a few queries at a time, as rows.

    Args:
        scores: float [T, V].
        target: [T, V], a value of each pair.
        dim: dimension of the candidates.

    Returns:
        Contiguous parts [q, C] of both.

    Raises:
        ValueError: a score is NaN.

    Example:
        A small matrix is one part; here videos ask. ::

            >>> [(s.shape, t.shape) for s, t in queries(torch.ones(3, 2), torch.ones(3, 2), 0)]
            [(torch.Size([2, 3]), torch.Size([2, 3]))]
    """
    refuse_nan(scores)
    if dim == 0:
        scores, target = scores.t(), target.t()
    rows = tile_rows(scores)
    for part in zip(scores.split(rows), target.split(rows)):
        yield part[0].contiguous(), part[1].contiguous()  # gathers from columns are slow


class Ranking(NamedTuple):
    """The candidates of some queries, best first; ties are groups of one score.

    Attributes:
        order: int64 [Q, C], the candidate at each place.
        first: int64 [Q, C], the first place (from 0) of the group at each place.
        last: int64 [Q, C], its last place.
    """

    order: Tensor
    first: Tensor
    last: Tensor


def rank_rows(scores: Tensor) -> Ranking:
    """Sort float [Q, C], higher first.

    Example:
        ::

            >>> ranking = rank_rows(torch.tensor([[.5, .9, .5]]))
            >>> ranking.first.tolist(), ranking.last.tolist()
            ([[0, 1, 1]], [[0, 2, 2]])
    """
    ordered, order = scores.sort(dim=1, descending=True)
    edge = torch.ones_like(ordered[:, :1], dtype=torch.bool)
    change = ordered[:, 1:] != ordered[:, :-1]
    position = torch.arange(ordered.shape[1], device=ordered.device)
    first = position.where(torch.cat([edge, change], 1), 0).cummax(1).values
    last = position.where(torch.cat([change, edge], 1), len(position))
    return Ranking(order, first, last.flip(1).cummin(1).values.flip(1))


def group_sums(x: Tensor, ranking: Ranking) -> tuple[Tensor, Tensor]:
    """Return the sum of ``x`` (by place, [Q, C]) before the tie group at each place, and inside it.

    Example:
        ::

            >>> x, ranking = torch.tensor([[1., 2., 4.]]), rank_rows(torch.tensor([[.9, .5, .5]]))
            >>> [sums.tolist() for sums in group_sums(x, ranking)]
            [[[0.0, 1.0, 1.0]], [[1.0, 6.0, 6.0]]]
    """
    total = x.cumsum(1)
    before = total.gather(1, ranking.first) - x.gather(1, ranking.first)
    return before, total.gather(1, ranking.last) - before


def precision_at_hits(hits: Tensor, gains: Tensor, ranking: Ranking) -> Tensor:
    """Return the mean over a query's hits at rank i of (sum of the gains up to i) / i, over ties.

    Args:
        hits: 0 or 1, float64 [Q, C], by place.
        gains: float64 [Q, C], by place; 1 at the hits. Equal to ``hits`` for a precision.
        ranking: of the queries.

    Returns:
        float64 [Q]; NaN if there is no hit.

    Example:
        Hits at ranks 1 and 3: (1/1 + 2/3) / 2. ::

            >>> hits = torch.tensor([[1., 0., 1.]]).double()
            >>> precision_at_hits(hits, hits, rank_rows(torch.tensor([[.9, .5, .1]])))
            tensor([0.8333], dtype=torch.float64)
    """
    return precision_by_place(hits, gains, ranking).sum(1) / hits.sum(1).where(
        hits.any(1), torch.nan
    )


def precision_by_place(hits: Tensor, gains: Tensor, ranking: Ranking) -> Tensor:
    """Return terms of :func:`precision_at_hits`: (a hit here) x (sum of the gains up to i) / i.

    Args:
        hits, gains, ranking: see :func:`precision_at_hits`.

    Returns:
        float64 [Q, C], by place, expected over ties.

    Example:
        ::

            >>> hits = torch.tensor([[1., 0., 1.]]).double()
            >>> precision_by_place(hits, hits, rank_rows(torch.tensor([[.9, .5, .1]])))
            tensor([[1.0000, 0.0000, 0.6667]], dtype=torch.float64)
    """
    place = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    before, inside = group_sums(gains, ranking)
    matches = inside if gains is hits else group_sums(hits, ranking)[1]
    size = ranking.last - ranking.first + 1
    further = (place - 1 - ranking.first) * (inside - 1) / (size - 1).clamp(min=1)
    return matches / size * (before + 1 + further) / place


def expected_gains(gains: Tensor, ranking: Ranking) -> Tensor:
    """Return gains by place [Q, C], each the mean of its tie group.

    Example:
        ::

            >>> gains = torch.tensor([[1., 0., .5]])
            >>> expected_gains(gains, rank_rows(torch.tensor([[.9, .5, .5]])))
            tensor([[1.0000, 0.2500, 0.2500]])
    """
    return group_sums(gains, ranking)[1] / (ranking.last - ranking.first + 1)


def share_of_best_gain(gains: Tensor, relevance: Tensor, depth: Union[int, Tensor]) -> Tensor:
    """Return nDCG of gains by place: float64 [Q], NaN if nothing is relevant.

    Args:
        gains: float64 [Q, C], by place.
        relevance: float [Q, C], of the same candidates in any order.
        depth: number of places that count, for all queries or int64 [Q, 1].

    Example:
        The only relevant candidate is second: log 2 / log 3. ::

            >>> gains = torch.tensor([[0., 1.]]).double()
            >>> share_of_best_gain(gains, gains, 2)
            tensor([0.6309], dtype=torch.float64)
    """
    best = relevance.sort(dim=1, descending=True).values.double()
    place = torch.arange(1, best.shape[1] + 1, device=best.device)
    discount = (place <= depth) / (place + 1).double().log2()
    dcg, ideal = (gains * discount).sum(1), (best * discount).sum(1)
    return dcg / ideal.where(ideal > 0, torch.nan)
