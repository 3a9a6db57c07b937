"""Ranks of matches in a score matrix [T, V], by counting instead of sorting.

Counting the candidates above and tied with a query's best-scored match takes two passes over the
matrix, needs no index matrices, and fixes a tie rule: the mean rank.  Either direction (``dim``)
reads the matrix in its memory layout, in tiles.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.values import arrays_too, check_shapes

__all__ = [
    'RankCounts',
    'caption_max',
    'expected_mean_rank',
    'expected_median_rank',
    'expected_recall_at',
    'mean_rank',
    'median_rank',
    'rank_counts',
    'ranks',
    'recall_at',
]

#: Entries of a matrix handled at a time: about what a core's cache holds.
TILE = 2**20


class RankCounts(NamedTuple):
    """Rank statistics of the best-scored match of each of Q queries.

    Attributes:
        above: float64 [Q], candidates scored higher; none is a match.
        tied: float64 [Q], other candidates with the same score that are not a match.
        twins: float64 [Q], matches with that score, itself included; 0 = the query has no match.
    """

    above: Tensor
    tied: Tensor
    twins: Tensor

    def answerable(self) -> 'RankCounts':
        """Return the queries that have a match."""
        return RankCounts(*(x[self.twins > 0] for x in self))

    def mean_ranks(self) -> Tensor:
        """Return ranks with ties at their mean, float64 [Q]; NaN if a query has no match."""
        return (1 + self.above + self.tied / 2).where(self.twins > 0, torch.nan)


@arrays_too
def rank_counts(scores: Tensor, positives: Tensor, *, dim: int = 1, tile: int = TILE) -> RankCounts:
    """Return the number of candidates above and tied with each query's best-scored match.

    Args:
        scores: float or integer [T, V], higher is better.
        positives: bool [T, V], the matches.
        dim: dimension of the candidates: 1 = videos for text queries, 0 = texts for video queries.
        tile: entries compared at a time; bounds the memory, never changes the result.

    Returns:
        float64 [Q] each.

    Raises:
        ValueError: shapes differ, or a score is NaN.

    Example:
        One video scores higher than the match, one the same. ::

            >>> scores, positives = torch.tensor([[.9, .5, .5]]), torch.tensor([[0, 1, 0]]).bool()
            >>> [x.item() for x in rank_counts(scores, positives)]
            [1.0, 1.0, 1.0]
    """
    check_shapes(scores=scores, positives=positives)
    refuse_nan(scores)
    scores = scores if scores.is_floating_point() else scores.double()
    texts, videos = positives.nonzero(as_tuple=True)
    queries, matched = (texts if dim == 1 else videos), scores[texts, videos]
    best = scores.new_full((scores.shape[1 - dim],), -torch.inf)
    best.scatter_reduce_(0, queries, matched, 'amax')
    zero = torch.zeros(len(best), dtype=torch.float64, device=scores.device)
    twins = zero.index_add(0, queries, (matched == best[queries]).double())
    above, reached = zero.clone(), zero.clone()
    rows = tile_rows(scores, tile)
    buffer = torch.empty(rows, scores.shape[1], device=scores.device)
    for start in range(0, len(scores), rows):
        part = scores[start : start + rows]
        here = slice(start, start + rows) if dim == 1 else slice(None)
        bar, hit = best[here].unsqueeze(dim), buffer[: len(part)]
        above[here] += torch.gt(part, bar, out=hit).sum(dim)
        reached[here] += torch.ge(part, bar, out=hit).sum(dim)
    return RankCounts(above, reached - above - twins, twins)


@arrays_too
def ranks(
    scores: Tensor, positives: Optional[Tensor] = None, *, dim: int = 1, tile: int = TILE
) -> Tensor:
    """Return the rank of each query's best-scored match, 1 = first, ties at their mean rank.

    ``1 + #(others above) + #(others tied) / 2``: the query's further matches never count
    against it.

    Args:
        scores: float [T, V], higher is better.
        positives: bool [T, V], the matches; default: text i belongs to video i.
        dim, tile: see :func:`rank_counts`.

    Raises:
        ValueError: see :func:`rank_counts`; without positives a matrix that is not square.

    Example:
        Two videos; texts 0 and 1 belong to video 0, text 2 to video 1. ::

            >>> scores = torch.tensor([[.9, .1], [.4, .8], [.7, .7]])
            >>> positives = torch.tensor([[1, 0], [1, 0], [0, 1]]).bool()
            >>> ranks(scores, positives).tolist()  # text 1 is second, text 2 is in a tie
            [1.0, 2.0, 1.5]
            >>> ranks(scores, positives, dim=0).tolist()  # text 1 is above video 1's own text
            [1.0, 2.0]
            >>> ranks(torch.tensor([[.9, .1], [.8, .2]])).tolist()
            [1.0, 2.0]

    Returns:
        float64 [Q]; NaN if a query has no match (:func:`recall_at` and the others leave those
        queries out).
    """
    if positives is None:
        positives = diagonal(scores)
    return rank_counts(scores, positives, dim=dim, tile=tile).mean_ranks()


@arrays_too
def caption_max(scores: Tensor, positives: Tensor, *, tile: int = TILE) -> Tensor:
    """Return the best score of any caption of video u with video v: [T, V] -> [U = V, V].

    CLIP4Clip's multi-caption protocol: a video's candidates are the videos, each scored by its best
    caption, so ``ranks(caption_max(s, p), torch.diag(p.any(0)), dim=0)``.  If captions belong to
    several videos, another video that shares a caption with v is not a candidate for v.

    Args:
        scores: float [T, V].
        positives: bool [T, V], the captions of each video.
        tile: entries handled at a time.

    Example:
        Texts 0 and 1 belong to video 0, text 2 to video 1. ::

            >>> scores = torch.tensor([[.9, .1], [.4, .8], [.7, .6]])
            >>> positives = torch.tensor([[1, 0], [1, 0], [0, 1]]).bool()
            >>> caption_max(scores, positives)
            tensor([[0.9000, 0.8000],
                    [0.7000, 0.6000]])

    Returns:
        [V, V] in the dtype of ``scores``; ``-inf`` = no candidate (no captions, or shared ones).
    """
    texts, videos = positives.nonzero(as_tuple=True)
    best = scores.new_full((scores.shape[1],) * 2, -torch.inf)
    rows = tile_rows(scores, tile)
    for text, video in zip(texts.split(rows), videos.split(rows)):
        index = video[:, None].expand(-1, len(best))
        best.scatter_reduce_(0, index, scores.index_select(0, text), 'amax')
    shared = torch.zeros_like(best, dtype=torch.bool)
    for text in (texts.bincount(minlength=len(scores)) > 1).nonzero().flatten():
        owners = videos[texts == text]
        shared[owners[:, None], owners] = True
    return best.masked_fill_(shared.fill_diagonal_(False), -torch.inf)


@arrays_too
def recall_at(ranks: Tensor, k: int) -> Tensor:
    """Return the share of queries whose rank is at most ``k``: float [Q], without NaN -> 0-dim.

    Example:
        ::

            >>> recall_at(torch.tensor([1.0, 3.0, torch.nan]), 1)
            tensor(0.5000, dtype=torch.float64)
    """
    return (_known(ranks) <= k).double().mean()


@arrays_too
def median_rank(ranks: Tensor) -> Tensor:
    """Return the median of ranks, float [Q], without NaN: 0-dim; the middle two's mean if even.

    Example:
        ::

            >>> median_rank(torch.tensor([1.0, 2.0, 9.0, torch.nan]))
            tensor(2.)
    """
    return _known(ranks).quantile(0.5)


@arrays_too
def mean_rank(ranks: Tensor) -> Tensor:
    """Return the mean of those ranks, float [Q], that are not NaN: 0-dim.

    Example:
        ::

            >>> mean_rank(torch.tensor([1.0, 2.0, 9.0, torch.nan]))
            tensor(4.)
    """
    return _known(ranks).mean()


def expected_recall_at(counts: RankCounts, k: float) -> Tensor:
    """Return the expected :func:`recall_at` if ties break at random.

    That of a constant matrix is the chance level; that of the truth as the score is the ceiling of
    perfect semantics.  With n = tied + twins, P(best match beyond j = k - above) =
    C(n-j, p) / C(n, p), p = twins.

    Args:
        counts: float64 [Q] each; queries without a match are left out.
        k: number of first places.

    Returns:
        0-dim float64 in [0, 1].

    Example:
        One match among 10 candidates, all scores equal: 5 places of 10. ::

            >>> one = torch.ones(1).double()
            >>> expected_recall_at(RankCounts(above=0 * one, tied=9 * one, twins=one), 5)
            tensor(0.5000, dtype=torch.float64)
    """
    above, tied, twins = counts.answerable()
    group, places = tied + twins, (k - above).clamp(min=0)
    miss = (_log_choose(group - places, twins) - _log_choose(group, twins)).exp()
    return (1 - miss).mean()


def expected_mean_rank(counts: RankCounts) -> Tensor:
    """Return the expected :func:`mean_rank` if ties break at random: above + (n + 1) / (twins + 1).

    Args:
        counts: float64 [Q] each, n = tied + twins; queries without a match are left out.

    Returns:
        0-dim float64.

    Example:
        One match among 10 candidates, all scores equal. ::

            >>> one = torch.ones(1).double()
            >>> expected_mean_rank(RankCounts(above=0 * one, tied=9 * one, twins=one))
            tensor(5.5000, dtype=torch.float64)
    """
    above, tied, twins = counts.answerable()
    return (above + (tied + twins + 1) / (twins + 1)).mean()


def expected_median_rank(counts: RankCounts) -> Tensor:
    """Return the :func:`median_rank` over queries and over the orders of ties.

    Args:
        counts: float64 [Q] each; queries without a match are left out.

    Returns:
        0-dim float64.

    Example:
        One match among 9 candidates, all scores equal. ::

            >>> one = torch.ones(1).double()
            >>> expected_median_rank(RankCounts(above=0 * one, tied=8 * one, twins=one))
            tensor(5., dtype=torch.float64)
    """
    slack = 1e-9  # the error of log-gamma at an exact half
    low = _first_rank(counts, 0.5 - slack)
    high = _first_rank(counts, 0.5 + slack)
    return counts.above.new_tensor((low + high) / 2)


def diagonal(scores: Tensor) -> Tensor:
    """Return the positives of which text i belongs to video i, bool [N, N].

    Raises:
        ValueError: the scores are not square.

    Example:
        ::

            >>> diagonal(torch.ones(2, 2))
            tensor([[ True, False],
                    [False,  True]])
    """
    if scores.dim() != 2 or scores.shape[0] != scores.shape[1]:
        raise ValueError(f'scores {list(scores.shape)} are not square: positives must be given')
    return torch.eye(len(scores), dtype=torch.bool, device=scores.device)


def refuse_nan(scores: Tensor) -> None:
    """Raise ValueError with the row and column of the first NaN of float [T, V].

    Example:
        ::

            >>> refuse_nan(torch.tensor([[0.1, torch.nan]]))
            Traceback (most recent call last):
            ValueError: scores[0, 1] is NaN
    """
    place = first_nan(scores)
    if place is not None:
        raise ValueError(f'scores[{place[0]}, {place[1]}] is NaN')


def first_nan(scores: Tensor) -> Optional[tuple[int, int]]:
    """Return row and column of the first NaN of float [T, V], None if there is none.

    A sum tells in one fast pass whether a search is needed: a NaN always reaches it.

    Example:
        ::

            >>> first_nan(torch.tensor([[0.1, torch.nan]]))
            (0, 1)
    """
    rows = tile_rows(scores)
    for start in range(0, len(scores), rows):
        part = scores[start : start + rows]
        if part.sum().isnan() and part.isnan().any():
            row, column = part.isnan().nonzero()[0].tolist()
            return start + row, column
    return None


def _first_rank(counts: RankCounts, share: float) -> int:
    """Return the smallest k with ``expected_recall_at(k) >= share``, by bisection."""
    low, high = 0, int((counts.above + counts.tied).max()) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if expected_recall_at(counts, middle) >= share else (middle, high)
    return high


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    """Return log C(n, k), -inf where n < k."""
    inside = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0) + 1)
    return inside.where(n >= k, -torch.inf)


def _known(ranks: Tensor) -> Tensor:
    return ranks[~ranks.isnan()]


def tile_rows(scores: Tensor, tile: Optional[int] = None) -> int:
    """Return the number of rows of [Q, C] that are handled at a time.

    Example:
        ::

            >>> tile_rows(torch.ones(2, 3), 7)
            2
    """
    return max(1, (tile or TILE) // max(1, scores.shape[1]))
