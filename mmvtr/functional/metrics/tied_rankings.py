"""Rankings with ties: what a metric by place is in expectation, if ties fall at random.

Metrics of :mod:`.relevance` and its neighbours are sums over the places of a sorted
list; here is each sum once, with the expected value of a place in a group of tied candidates.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Union

import torch
from torch import Tensor

from mmvtr.functional.metrics.ranks import TILE, refuse_nan


def queries(scores: Tensor, target: Tensor, dim: int) -> Iterator[tuple[Tensor, Tensor]]:
    """A few queries at a time, as rows.

    Args:
        scores: float [T, V].
        target: [T, V], what is known of each pair.
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
    rows = max(1, TILE // max(1, scores.shape[1]))
    for part in zip(scores.split(rows), target.split(rows)):
        yield part[0].contiguous(), part[1].contiguous()  # columns are slow to gather from


class Ranking(NamedTuple):
    """The candidates of some queries, best first; ties stand in groups of one score.

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
    """Sum of ``x`` (by place, [Q, C]) before the tie group at each place, and inside it.

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
    """Mean over a query's hits at rank i of (sum of the gains up to i) / i, expected over ties.

    Args:
        hits: 0 or 1, float64 [Q, C], by place.
        gains: float64 [Q, C], by place; 1 at the hits. The hits themselves for a precision.
        ranking: of the queries.

    Returns:
        float64 [Q]; NaN where there is no hit.

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
    """The terms of :func:`precision_at_hits`: (a hit here) x (sum of the gains up to i) / i.

    Args:
        hits, gains, ranking: as there.

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
    """Gains by place [Q, C], each the mean of its tie group.

    Example:
        ::

            >>> gains = torch.tensor([[1., 0., .5]])
            >>> expected_gains(gains, rank_rows(torch.tensor([[.9, .5, .5]])))
            tensor([[1.0000, 0.2500, 0.2500]])
    """
    return group_sums(gains, ranking)[1] / (ranking.last - ranking.first + 1)


def share_of_best_gain(gains: Tensor, relevance: Tensor, depth: Union[int, Tensor]) -> Tensor:
    """nDCG of gains by place: float64 [Q], NaN where nothing is relevant.

    Args:
        gains: float64 [Q, C], by place.
        relevance: float [Q, C], of the same candidates in any order.
        depth: places that count, for all queries or int64 [Q, 1].

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
