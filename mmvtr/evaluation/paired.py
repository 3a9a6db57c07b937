"""Tests of paired differences: bootstrap, permutations, correction for several; deterministic."""

from __future__ import annotations

from functools import lru_cache
from typing import Optional, Sequence

import numpy as np

DRAWS = 2000
#: Random sign vectors of a permutation test that cannot try all.
SIGNS = 9999
LEVEL = 0.95


def permutation_p(gains: np.ndarray) -> float:
    """Return the two-sided sign-flip p-value of a sum of paired differences.

    Few differences are tested with all sign vectors, more with :data:`SIGNS` random ones; needs
    scipy.

    Args:
        gains: float64 [N], sums over independent groups of queries.
    """
    from scipy.stats import permutation_test  # imported late: slow

    gains = gains[gains != 0]  # flipping their sign changes nothing
    if len(gains) < 2:
        return 1.0
    test = permutation_test(
        (gains,),
        lambda x, axis: x.sum(axis),
        permutation_type='samples',
        vectorized=True,
        n_resamples=SIGNS,
        batch=500,
        rng=np.random.default_rng(len(gains)),
    )
    return float(test.pvalue)


def holm(ps: Sequence[float]) -> list[float]:
    """Return Holm-corrected p-values of a family of tests, in their order.

    Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979.

    Example:
        ::

            >>> holm([0.01, 0.04, 0.03])
            [0.03, 0.06, 0.06]
    """
    corrected, least = [0.0] * len(ps), 0.0
    for rank, place in enumerate(np.argsort(ps, kind='stable').tolist()):
        least = max(least, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = least
    return corrected


def bootstrap(
    fields: Sequence[np.ndarray],
    videos: Optional[Sequence[np.ndarray]] = None,
    *,
    draws: int = DRAWS,
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a mean over seeds of a sum of means over queries.

    Each draw takes S of S seeds and Q of Q queries with replacement. All seeds share the test
    queries, so a draw takes the same queries for all seeds, and for all fields of equally many
    queries, since text i and video i are a pair if each video has one text. If videos have several
    texts, a draw takes videos, the same for all fields, with all their queries.

    For one system, or for many seeds; for few seeds use
    :func:`~mmvtr.evaluation.seeds.of_seeds_and_queries`.

    Args:
        fields: each float64 [S, Q], the differences of S seeds on Q queries.
        videos: for each field int64 [Q], the video of each query; None = one query a video.
        draws: number of draws.

    Returns:
        Both ends of the interval.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, Ch. 13.
    """
    sums = sums_of_drawn(fields, videos, draws)
    seeds = sums.shape[1]
    means = (sums * _counts(seeds, draws, stream=1)).sum(1) / seeds
    low, high = np.quantile(means, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def sums_of_drawn(
    fields: Sequence[np.ndarray], videos: Optional[Sequence[np.ndarray]], draws: int
) -> np.ndarray:
    """Return bootstrap sums over fields of means over drawn queries, float64 [draws, S]."""
    if videos is None:
        drawn = [_counts(field.shape[1], draws) for field in fields]
        return sum(
            times @ field.T / times.sum(1, keepdims=True) for times, field in zip(drawn, fields)
        )
    # a video's sum over its queries counts as often as the video is drawn
    distinct, places = np.unique(np.concatenate(videos), return_inverse=True)
    counts = _counts(len(distinct), draws)
    parts = np.split(places, np.cumsum([len(those) for those in videos])[:-1])
    return sum(_mean_of_drawn(counts, those, field) for those, field in zip(parts, fields))


def _mean_of_drawn(counts: np.ndarray, places: np.ndarray, field: np.ndarray) -> np.ndarray:
    """Return bootstrap means over the queries of drawn videos, float64 [draws, S]."""
    size = counts.shape[1]
    sums = np.stack([np.bincount(places, row, minlength=size) for row in field], axis=1)
    return counts @ sums / (counts @ np.bincount(places, minlength=size))[:, None]


@lru_cache(maxsize=64)
def _counts(number: int, draws: int, stream: int = 0) -> np.ndarray:
    """Return how often each index is drawn, float64 [draws, number]; fixed for equal arguments."""
    draw = np.random.default_rng([stream, number])
    return draw.multinomial(number, np.full(number, 1 / number), draws).astype(np.float64)
