"""Metrics for queries with many or graded matches: AP, nDCG@K, precision@1, AUC.

Ties get the expected value over all their orders, so a metric of a constant matrix *is* its chance
level.  All take scores [T, V] and a ``dim`` as :mod:`.ranks` does, and give NaN to
queries without a match.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.metrics.ranks import refuse_nan
from mmvtr.functional.metrics.tied_rankings import (
    expected_gains,
    precision_at_hits,
    queries,
    rank_rows,
    share_of_best_gain,
)

__all__ = ['auc', 'average_precision', 'ndcg_at_k', 'precision_at_1']


@arrays_too
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
    return torch.cat([_average_precision(*part) for part in queries(scores, truth, dim)])


def _average_precision(scores: Tensor, truth: Tensor) -> Tensor:
    ranking = rank_rows(scores)
    hits = truth.gather(1, ranking.order).double()
    return precision_at_hits(hits, hits, ranking)


@arrays_too
def ndcg_at_k(scores: Tensor, relevance: Tensor, *, k: int = 50, dim: int = 1) -> Tensor:
    """Discounted gain of the first ``k`` candidates over the best possible one.

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
        float64 [Q] in [0, 1]; NaN where nothing is relevant.

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
    """Whether the top-scored candidate is a true match (the share of matches in a tie there).

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
        float64 [Q] in [0, 1]; NaN where a query has no match.

    Raises:
        ValueError: a score is NaN.
    """
    refuse_nan(scores)
    top = scores == scores.amax(dim, keepdim=True)
    share = (top & truth).sum(dim).double() / top.sum(dim)
    return share.where(truth.any(dim), torch.nan)


@arrays_too
def auc(positives: Tensor, negatives: Tensor) -> Tensor:
    """Area under the ROC curve: P(a positive scores above a negative), ties count half.

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
        raise ValueError(f'AUC of {len(positives)} positives against {len(negatives)} negatives')
    ordered = negatives.sort().values
    below = torch.searchsorted(ordered, positives).double()
    not_above = torch.searchsorted(ordered, positives, right=True).double()
    return (below + not_above).mean() / (2 * len(negatives))
