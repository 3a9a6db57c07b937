"""Two systems on the same queries: by how much they differ, and whether that is resolved.

The same values always give the same numbers.
"""

from __future__ import annotations

import math
import statistics
from functools import lru_cache
from typing import NamedTuple, Optional, Sequence

import numpy as np

DRAWS = 2000
#: Signs that a permutation test draws, where there are more than it can try.
SIGNS = 9999
LEVEL = 0.95
#: Degrees of freedom as good as infinitely many.
MANY = 1000.0


class Paired(NamedTuple):
    """Paired difference of two systems in a per-query value.

    Attributes:
        mean: over the queries.
        low, high: ends of the 95 % interval of the paired bootstrap.
        p: of the two-sided permutation test.
        gained, lost: queries whose value is higher, and lower.
        queries: those that have a value.
        clusters: groups that were drawn, and whose signs were flipped, together.
    """

    mean: float
    low: float
    high: float
    p: float
    gained: int
    lost: int
    queries: int
    clusters: int


def paired(
    ours: np.ndarray, theirs: np.ndarray, clusters: Optional[np.ndarray] = None
) -> Optional[Paired]:
    """Return the paired difference ``ours - theirs`` with its interval and p-value.

    Args:
        ours, theirs: float64 [Q]; NaN = the query has no value.
        clusters: int64 [Q], queries that are no independent draws (texts of one video); None = all
            are.

    Returns:
        None where no query has a value.

    Raises:
        ValueError: not the same queries have values.
    """
    known = ~np.isnan(ours)
    if ours.shape != theirs.shape or not np.array_equal(known, ~np.isnan(theirs)):
        raise ValueError('the two systems do not have values for the same queries')
    if not known.any():
        return None
    gains = ours[known] - theirs[known]
    groups = np.arange(len(gains)) if clusters is None else clusters[known]
    _, places = np.unique(groups, return_inverse=True)
    sums = np.bincount(places, weights=gains)
    low, high = bootstrap([gains[None]], [places])
    return Paired(
        float(gains.mean()),
        low,
        high,
        permutation_p(sums),
        int((gains > 0).sum()),
        int((gains < 0).sum()),
        len(gains),
        len(sums),
    )


def permutation_p(gains: np.ndarray) -> float:
    """Return the two-sided sign-flip p-value of a sum of paired differences.

    All signs where they are few, else :data:`SIGNS` draws of them; needs scipy.

    Args:
        gains: float64 [N], one of each independent draw.
    """
    from scipy.stats import permutation_test  # only now: metrics do not wait for it

    gains = gains[gains != 0]  # whose sign changes nothing
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

    Each draw takes S of S seeds and Q of Q queries with replacement. All seeds meet the same test
    queries, so a draw takes the same ones for all; and the same ones for fields of equally many
    queries, since text i and video i are a pair where a video has one text. Where videos have
    several, a draw takes videos, for all fields the same, and all queries that belong to them.

    Of one system, or of many seeds; of a few, :func:`seeds_and_queries`.

    Args:
        fields: each float64 [S, Q], the differences of S seeds on Q queries.
        videos: for each field int64 [Q], the video of each query; None = one query a video.
        draws: number of them.

    Returns:
        Both ends.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, Ch. 13.
    """
    sums = _sums_of_drawn(fields, videos, draws)
    seeds = sums.shape[1]
    means = (sums * _counts(seeds, draws, stream=1)).sum(1) / seeds
    low, high = np.quantile(means, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def seeds_and_queries(
    fields: Sequence[np.ndarray],
    videos: Optional[Sequence[np.ndarray]] = None,
    *,
    draws: int = DRAWS,
) -> tuple[tuple[float, float], float]:
    """Return the 95 % interval and p-value of a mean over seeds of a sum of means over queries.

    For what other seeds *and* other queries would give.  A handful of seeds cannot be resampled:
    draws of three show two thirds of their variance, and never more than their range.  So the
    variance of the mean over seeds is the sample's, s^2 / S with S - 1 degrees of freedom; that of
    the queries, the same for all seeds, is the bootstrap's, and is as good as known.  Their sum has
    the degrees of freedom that make it a Student's t: few where the seeds disagree, many where they
    agree.  What a seed does to a query is in both variances: where that is much, the interval is
    too wide rather than too narrow.

    Args:
        fields, videos, draws: see :func:`bootstrap`.

    Returns:
        Both ends, and the two-sided p; (-inf, inf) and 1 for one seed.

    Source: Welch, "The generalization of 'Student's' problem when several different population
    variances are involved", Biometrika 1947; Satterthwaite 1946.
    """
    gains = sum(field.mean(1) for field in fields)
    if len(gains) < 2:
        return (-math.inf, math.inf), 1.0
    of_queries = float(_sums_of_drawn(fields, videos, draws).mean(1).var())
    of_seeds = float(gains.var(ddof=1)) / len(gains)
    variance = of_queries + of_seeds
    share = of_seeds / variance if variance else 0.0
    freedom = min((len(gains) - 1) / share**2, MANY) if share else MANY
    return _student(float(gains.mean()), math.sqrt(variance), freedom)


def _sums_of_drawn(
    fields: Sequence[np.ndarray], videos: Optional[Sequence[np.ndarray]], draws: int
) -> np.ndarray:
    """Return bootstrap sums over fields of means over drawn queries, float64 [draws, S]."""
    if videos is None:
        drawn = [_counts(field.shape[1], draws) for field in fields]
        return sum(
            times @ field.T / times.sum(1, keepdims=True) for times, field in zip(drawn, fields)
        )
    # the sum over a video's queries is drawn as often as the video is
    found, places = np.unique(np.concatenate(videos), return_inverse=True)
    counts = _counts(len(found), draws)
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


def student(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % Student interval of the mean of a few values; infinite for one value."""
    return _of_values(values)[0]


def student_p(values: Sequence[float]) -> float:
    """Return the two-sided p-value of a zero mean of a few normal values; 1 for one value."""
    return _of_values(values)[1]


def _of_values(values: Sequence[float]) -> tuple[tuple[float, float], float]:
    mean, freedom = statistics.mean(values), len(values) - 1
    if not freedom:
        return (-math.inf, math.inf), 1.0
    return _student(mean, statistics.stdev(values) / math.sqrt(len(values)), freedom)


def _student(mean: float, error: float, freedom: float) -> tuple[tuple[float, float], float]:
    """Return interval and p-value of a mean, given its standard error and degrees of freedom."""
    freedom = round(freedom, 1)  # few are told apart, and remembered
    half = student_quantile(freedom) * error
    if error == 0:
        return (mean, mean), float(mean == 0)
    angles, shares = _angles(freedom)
    p = 1 - np.interp(math.atan(abs(mean) / error / math.sqrt(freedom)), angles, shares)
    return (mean - half, mean + half), float(p)


@lru_cache(maxsize=1024)
def student_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the value that a share ``level`` of all ``|t|`` do not exceed."""
    angles, shares = _angles(freedom)
    return float(np.sqrt(freedom) * np.tan(np.interp(level, shares, angles)))


@lru_cache(maxsize=16)
def _angles(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """Return angles from 0 on, and the share of all ``|t|`` below sqrt(freedom) tan(angle).

    The density of the angle is cos(angle)^(freedom - 1).
    """
    angles = np.linspace(0, np.pi / 2, 200_001)
    heights = np.cos(angles) ** (freedom - 1)
    areas = np.cumsum((heights[1:] + heights[:-1]) / 2)
    return angles[1:], areas / areas[-1]


def seeds_needed(gains: Sequence[float], matters: float, most: int = 99) -> Optional[int]:
    """Return how many trainings resolve a difference of ``matters`` with a power of 80 %.

    The least n >= 2 whose (t of 95 % + t of 80 %) standard errors are no more than ``matters``, by
    the spread of the differences that were measured. Queries are the same for all seeds, so their
    share of the uncertainty is not in it: a lower bound.

    Args:
        gains: differences of at least two seeds.
        matters: > 0.
        most: where to stop.

    Returns:
        None where ``most`` would not do.

    Source: Student's t test, level .05 (two-sided), power .8.
    """
    deviation = statistics.stdev(gains)
    for n in range(2, most + 1):
        # 80 % of all t lie below the t that 60 % of all |t| do not exceed
        both = student_quantile(n - 1) + student_quantile(n - 1, 0.6)
        if both * deviation / math.sqrt(n) <= matters:
            return n
    return None
