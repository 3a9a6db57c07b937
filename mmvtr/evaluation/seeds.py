"""Intervals and p-values of a mean difference over a handful of trainings, by Student's t.

Needs scipy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple, Optional, Sequence

import numpy as np

from mmvtr.evaluation.paired import DRAWS, LEVEL, sums_of_drawn

#: Degrees of freedom as good as infinitely many.
MANY = 1000.0


class Estimate(NamedTuple):
    """A mean difference and how well it is known.

    Attributes:
        mean: the mean.
        error: its standard error; infinite for one training, which gives none.
        freedom: degrees of freedom of ``error``.
    """

    mean: float
    error: float
    freedom: float

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the 95 % interval; infinite without an error."""
        half = student_quantile(self.freedom) * self.error if self.error else 0.0
        return self.mean - half, self.mean + half

    @property
    def p(self) -> float:
        """Two-sided p-value of a zero mean; 1 without an error."""
        if not self.error:
            return float(self.mean == 0)
        return 2 * self._beyond(abs(self.mean))

    def p_within(self, margin: float) -> float:
        """Return the p-value of a mean that is at least ``margin`` away from 0.

        A small one says that the difference is equivalent to none.

        Args:
            margin: > 0.

        Source: two one-sided tests, Schuirmann, "A comparison of the two one-sided tests procedure
        and the power approach", 1987.
        """
        inside = margin - abs(self.mean)
        if not self.error:
            return float(inside <= 0)
        return self._beyond(inside)

    def _beyond(self, distance: float) -> float:
        """Return the probability that a t of this error exceeds ``distance``."""
        if math.isinf(self.error):
            return 0.5
        return float(_student().sf(distance / self.error, self.freedom))


def of_seeds(values: Sequence[float]) -> Estimate:
    """Return the estimate of the mean of one value per training, for other trainings.

    Args:
        values: at least one.
    """
    numbers, freedom = np.asarray(values, dtype=np.float64), len(values) - 1
    error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers)) if freedom else math.inf
    return Estimate(float(numbers.mean()), error, max(freedom, 1))


def of_seeds_and_queries(
    fields: Sequence[np.ndarray],
    groups: Optional[Sequence[np.ndarray]] = None,
    *,
    draws: int = DRAWS,
) -> Estimate:
    """Return the estimate of a mean over seeds of a sum of means over queries.

    For other seeds *and* other queries.  A handful of seeds cannot be resampled: draws of three
    show two thirds of their variance, and never more than their range.  So the variance of the mean
    over seeds is the sample's, s^2 / S with S - 1 degrees of freedom; that of the queries, the same
    for all seeds, is the bootstrap's, and is as good as known.  Their sum has the degrees of
    freedom that make it a Student's t: few where the seeds disagree, many where they agree.  What a
    seed does to a query is in both variances: where that is much, the interval is too wide rather
    than too narrow.

    Args:
        fields, groups, draws: see :func:`~mmvtr.evaluation.paired.bootstrap`.

    Returns:
        One with an infinite error for one seed.

    Source: Welch, "The generalization of 'Student's' problem when several different population
    variances are involved", Biometrika 1947; Satterthwaite 1946.
    """
    gains = sum(field.mean(1) for field in fields)
    alone = of_seeds(gains)
    if len(gains) < 2:
        return alone
    of_queries = float(sums_of_drawn(fields, groups, draws).mean(1).var())
    variance = of_queries + alone.error**2
    share = alone.error**2 / variance if variance else 0.0
    freedom = min(alone.freedom / share**2, MANY) if share else MANY
    return Estimate(alone.mean, math.sqrt(variance), round(freedom, 1))  # few are told apart


@lru_cache(maxsize=1024)
def student_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the value that a share ``level`` of all ``|t|`` do not exceed."""
    return float(_student().ppf((1 + level) / 2, freedom))


def _student():
    from scipy.stats import t  # imported late: slow

    return t


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
    deviation = float(np.std(gains, ddof=1))
    for n in range(2, most + 1):
        # 80 % of all t lie below the t that 60 % of all |t| do not exceed
        both = student_quantile(n - 1) + student_quantile(n - 1, 0.6)
        if both * deviation / math.sqrt(n) <= matters:
            return n
    return None
