"""Intervals and p-values of means over a handful of trainings."""

from __future__ import annotations

import math
import statistics
from functools import lru_cache
from typing import Optional, Sequence

import numpy as np

from mmvtr.evaluation.paired import DRAWS, LEVEL, sums_of_drawn

#: Degrees of freedom as good as infinitely many.
MANY = 1000.0


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
    of_queries = float(sums_of_drawn(fields, videos, draws).mean(1).var())
    of_seeds = float(gains.var(ddof=1)) / len(gains)
    variance = of_queries + of_seeds
    share = of_seeds / variance if variance else 0.0
    freedom = min((len(gains) - 1) / share**2, MANY) if share else MANY
    return _student(float(gains.mean()), math.sqrt(variance), freedom)


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
