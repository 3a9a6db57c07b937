"""Measures of whether a ranking follows the video lengths that its queries had in training.

Satar et al., "Towards Debiasing Frame Length Bias in Text-Video Retrieval via Causal Intervention",
Appendix B.  A query has the mean length of its action in the training set and in the test set;
rows are the queries [Q], columns the V test videos.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mmvtr.functional.metrics.ranks import tile_rows
from mmvtr.functional.metrics.relevance import group_sums, rank_rows
from mmvtr.functional.values import arrays_too

__all__ = ['chance_of_top', 'length_correlation', 'mean_of_top', 'nearer_to_train']


@arrays_too
def nearer_to_train(lengths: Tensor, train: Tensor, test: Tensor) -> Tensor:
    """Return 1 if a length is nearer to the train mean than to the test mean, 1/2 if equally near.

    Args:
        lengths: float64 [...], broadcasts with the others.
        train: float64 [...], mean lengths in training.
        test: float64 [...], mean lengths in the test set.

    Example:
        ::

            >>> lengths = torch.tensor([40., 60., 50.]).double()
            >>> nearer_to_train(lengths, *torch.tensor([20., 80.]).double())
            tensor([1.0000, 0.0000, 0.5000], dtype=torch.float64)

    Returns:
        float64 [...] of 0, 1/2 and 1.
    """
    to_train, to_test = (lengths - train).abs(), (lengths - test).abs()
    return (to_train < to_test).double() + (to_train == to_test).double() / 2


@arrays_too
def mean_of_top(scores: Tensor, values: Tensor, *, k: int) -> Tensor:
    """Return the mean value of each query's first ``k`` videos, expected over ties at place k.

    Args:
        scores: float [Q, V], higher is better.
        values: float64 [V] or [Q, V].
        k: places; all V if there are fewer.

    Example:
        The first, and one of the next two. ::

            >>> lengths = torch.tensor([30., 10., 20.]).double()
            >>> mean_of_top(torch.tensor([[.9, .5, .5]]), lengths, k=2)
            tensor([22.5000], dtype=torch.float64)

    Returns:
        float64 [Q].
    """
    k, rows = min(k, scores.shape[1]), tile_rows(scores)
    values = values.expand(scores.shape)
    parts = zip(scores.split(rows), values.split(rows))
    return torch.cat([_mean_of_top(*part, k) for part in parts])


def _mean_of_top(scores: Tensor, values: Tensor, k: int) -> Tensor:
    bar = scores.topk(k, dim=1).values[:, -1:]
    above, tied = scores > bar, scores == bar
    share = (k - above.sum(1, keepdim=True)) / tied.sum(1, keepdim=True)
    return ((above + tied * share.double()) * values).sum(1) / k


@arrays_too
def chance_of_top(
    lengths: Tensor, train: Tensor, test: Tensor, *, k: int, draws: int = 10_000
) -> Tensor:
    """Return P(mean length of ``k`` random videos is nearer to the train than to the test mean).

    All queries use the same random sets of videos, from a fixed seed: the standard error is 1/2 %
    with 10,000 sets.

    Args:
        lengths: float64 [V].
        train: float64 [Q], mean train length of each query's action.
        test: float64 [Q], its mean test length.
        k: videos a set; all V if there are fewer.
        draws: number of sets, at least.

    Example:
        Two of three videos are nearer to 15 than to 55. ::

            >>> lengths = torch.tensor([10., 20., 60.]).double()
            >>> chance_of_top(lengths, *torch.tensor([[15.], [55.]]).double(), k=1)
            tensor([0.6667], dtype=torch.float64)

    Returns:
        float64 [Q] in [0, 1].
    """
    count = len(lengths)
    k = min(k, count)
    sets = count // k  # disjoint ones in a random order of the videos
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(math.ceil(draws / sets), count, generator=generator)
    order = noise.argsort(dim=1)[:, : sets * k].to(lengths.device)
    means = lengths[order].view(-1, k).mean(1).sort().values
    middle = (train + test) / 2
    below, not_above = (
        torch.searchsorted(means, middle, right=right).double() / len(means)
        for right in (False, True)
    )
    shorter = (below + not_above) / 2
    return torch.where(train < test, shorter, 1 - shorter)


@arrays_too
def length_correlation(scores: Tensor, lengths: Tensor, centre: Tensor, among: Tensor) -> Tensor:
    """Return Spearman's correlation of a video's rank with its distance in length from a centre.

    Positive: the nearer a video's length is to the centre, the higher it ranks. A random ranking
    has 0 in expectation, whatever the lengths.

    Args:
        scores: float [Q, V], higher is better.
        lengths: float64 [V].
        centre: float64 [Q], a length for each query.
        among: bool [Q, V], the videos that count.

    Example:
        Ranks 1, 2, 3 of videos that are 0, 30 and 20 away from the centre. ::

            >>> lengths = torch.tensor([50., 80., 30.]).double()
            >>> scores, centre = torch.tensor([[.9, .5, .1]]), torch.tensor([50.]).double()
            >>> length_correlation(scores, lengths, centre, torch.ones(1, 3).bool())
            tensor([0.5000], dtype=torch.float64)

    Returns:
        float64 [Q] in [-1, 1], ties at their mean rank; 0 if all ranks or all distances are equal,
        as :func:`~mmvtr.functional.uncertainty.reliability.spearman`.
    """
    rows = tile_rows(scores)
    parts = zip(scores.split(rows), centre.split(rows), among.split(rows))
    return torch.cat(
        [
            _correlation(
                _ranks(part, some), _ranks(-(lengths - middle[:, None]).abs(), some), some.double()
            )
            for part, middle, some in parts
        ]
    )


def _ranks(scores: Tensor, among: Tensor) -> Tensor:
    """Return the rank of each video among those that count, ties at the mean: float64 [Q, V]."""
    ranking = rank_rows(scores)
    counted = among.gather(1, ranking.order).double()
    before, inside = group_sums(counted, ranking)
    return torch.empty_like(counted).scatter_(1, ranking.order, before + (inside + 1) / 2)


def _correlation(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Return Pearson's correlation by rows; ``weight`` is 1 for entries that count, else 0."""
    count = weight.sum(1, keepdim=True).clamp(min=1)
    x, y = (weight * (z - (weight * z).sum(1, keepdim=True) / count) for z in (x, y))
    norm = x.norm(dim=1) * y.norm(dim=1)
    return (x * y).sum(1) / norm.where(norm > 0, 1)
