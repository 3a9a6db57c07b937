"""Metrics for queries with many or graded matches: AP, nDCG@K, precision@1, AUC.

Ties get the expected value over all their orders, so a metric of a constant matrix *is* its chance
level.  All take scores [T, V] and a ``dim`` as :mod:`mmvtr.functional.ranks` does, and give NaN to
queries without a match.
"""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor

from mmvtr.functional.ranks import TILE, refuse_nan


def average_precision(scores: Tensor, truth: Tensor, *, dim: int = 1) -> Tensor:
    """Mean precision at the ranks of a query's matches; its mean over queries is mAP.

    In a group of n tied candidates with r matches, after m candidates with q matches, place j
    (1..n) holds a match with probability r/n, whose expected precision is
    ``(q + 1 + (j-1)(r-1)/(n-1)) / (m + j)`` (McSherry and Najork, ECIR 2008).

    Args:
        scores: float [T, V], higher is better.
        truth: bool [T, V], all true matches.
        dim: dimension of the candidates: 1 = texts ask for videos, 0 = videos ask for texts.

    Example:
        Matches at ranks 1 and 3 of 3: (1/1 + 2/3) / 2. ::

            >>> average_precision(torch.tensor([[.9, .5, .1]]), torch.tensor([[1, 0, 1]]).bool())
            tensor([0.8333], dtype=torch.float64)

    Returns:
        float64 [Q] in [0, 1].

    Raises:
        ValueError: a score is NaN.
    """
    return torch.cat([_average_precision(*part) for part in _queries(scores, truth, dim)])


def _average_precision(scores: Tensor, truth: Tensor) -> Tensor:
    ordered, order = scores.sort(dim=1, descending=True)
    hits = truth.gather(1, order).double()
    first, last = _tie_groups(ordered)
    place = torch.arange(1, scores.shape[1] + 1, device=scores.device)
    before, matches = _group_sums(hits, first, last)
    size = last - first + 1
    further = (place - 1 - first) * (matches - 1) / (size - 1).clamp(min=1)
    precision = matches / size * (before + 1 + further) / place
    return precision.sum(1) / hits.sum(1).where(truth.any(1), torch.nan)


def ndcg_at_k(scores: Tensor, relevance: Tensor, *, k: int = 50, dim: int = 1) -> Tensor:
    """Discounted gain of the first ``k`` candidates over the best possible one.

    DCG = sum over ranks i <= k of relevance / log2(i + 1); tied candidates share their mean
    relevance.  The full list (k = V) has a chance level of 65-82 %, so keep k small.

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
        float64 [Q] in [0, 1]; NaN where nothing is relevant.

    Raises:
        ValueError: a score is NaN.
    """
    return torch.cat([_ndcg(*part, k) for part in _queries(scores, relevance, dim)])


def _ndcg(scores: Tensor, relevance: Tensor, k: int) -> Tensor:
    ordered, order = scores.sort(dim=1, descending=True)
    first, last = _tie_groups(ordered)
    _, total = _group_sums(relevance.gather(1, order).double(), first, last)
    gains = total / (last - first + 1)
    best = relevance.double().sort(dim=1, descending=True).values
    discount = (torch.arange(gains.shape[1], device=scores.device) + 2).double().log2()
    dcg, ideal = ((x / discount)[:, :k].sum(1) for x in (gains, best))
    return dcg / ideal.where(ideal > 0, torch.nan)


def precision_at_1(scores: Tensor, truth: Tensor, *, dim: int = 1) -> Tensor:
    """Whether the top-scored candidate is a true match (the share of matches in a tie there).

    Arguments and errors as in :func:`average_precision`.

    Example:
        ::

            >>> scores = torch.tensor([[.9, .9, .1], [.1, .2, .3]])
            >>> truth = torch.tensor([[1, 0, 0], [0, 0, 1]]).bool()
            >>> precision_at_1(scores, truth)
            tensor([0.5000, 1.0000], dtype=torch.float64)

    Returns:
        float64 [Q] in [0, 1].
    """
    refuse_nan(scores)
    top = scores == scores.amax(dim, keepdim=True)
    share = (top & truth).sum(dim).double() / top.sum(dim)
    return share.where(truth.any(dim), torch.nan)


def auc(positives: Tensor, negatives: Tensor) -> Tensor:
    """Area under the ROC curve: P(a positive scores above a negative), ties count half.

    Args:
        positives: scores [P] of the class to detect.
        negatives: scores [N] of the other class.

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
        raise ValueError(f'AUC of {len(positives)} positives against {len(negatives)} negatives')
    ordered = negatives.sort().values
    below = torch.searchsorted(ordered, positives).double()
    not_above = torch.searchsorted(ordered, positives, right=True).double()
    return (below + not_above).mean() / (2 * len(negatives))


def _queries(scores: Tensor, target: Tensor, dim: int) -> Iterator[tuple[Tensor, Tensor]]:
    """A few queries at a time, as rows."""
    refuse_nan(scores)
    if dim == 0:
        scores, target = scores.t(), target.t()
    rows = max(1, TILE // max(1, scores.shape[1]))
    return zip(scores.split(rows), target.split(rows))


def _tie_groups(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """First and last position of the tie group of each position of sorted rows, int64 [Q, C]."""
    edge = torch.ones_like(ordered[:, :1], dtype=torch.bool)
    change = ordered[:, 1:] != ordered[:, :-1]
    position = torch.arange(ordered.shape[1], device=ordered.device)
    first = position.where(torch.cat([edge, change], 1), 0).cummax(1).values
    last = position.where(torch.cat([change, edge], 1), len(position))
    return first, last.flip(1).cummin(1).values.flip(1)


def _group_sums(x: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of ``x`` before each position's tie group, and inside it."""
    total = x.cumsum(1)
    before = total.gather(1, first) - x.gather(1, first)
    return before, total.gather(1, last) - before
