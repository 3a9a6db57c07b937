"""Intervals of a handful of trainings: by hand, by scipy, and by what they are to hold."""

import math

import numpy as np
import pytest
import scipy.stats

from mmvtr.evaluation.seeds import (
    of_seeds,
    of_seeds_and_queries,
    seeds_needed,
    student_quantile,
)


def seeds_and_queries(*args, **kwargs):
    found = of_seeds_and_queries(*args, **kwargs)
    return found.interval, found.p


def test_seeds_and_queries_by_hand():
    """Where queries agree it is Student's of the seeds, where seeds agree a normal interval."""
    values = np.array([1.0, 4.0, 10.0])
    (low, high), p = seeds_and_queries([np.repeat(values[:, None], 50, 1)])
    half = scipy.stats.t.ppf(0.975, 2) * values.std(ddof=1) / math.sqrt(3)
    assert (low, high) == pytest.approx((5 - half, 5 + half), rel=1e-4)
    assert p == pytest.approx(scipy.stats.ttest_1samp(values, 0).pvalue, rel=1e-4)
    queries = 100.0 * np.random.default_rng(8).integers(-1, 2, 900) + 5
    (low, high), p = seeds_and_queries([np.tile(queries, (3, 1))], draws=6000)
    error = queries.std() / 30
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.03)
    assert p == pytest.approx(2 * scipy.stats.norm.sf(abs(queries.mean()) / error), rel=0.1)
    assert seeds_and_queries([np.ones((1, 5))]) == ((-math.inf, math.inf), 1.0)
    assert seeds_and_queries([np.zeros((3, 5))] * 2) == ((0.0, 0.0), 1.0)


def test_what_seeds_do_to_queries_errs_on_the_safe_side():
    draw = np.random.default_rng(11)
    found = [seeds_and_queries([draw.normal(0, 20, (3, 100))], draws=200) for _ in range(300)]
    assert sum(low > 0 or high < 0 for (low, high), _ in found) <= 0.05 * 300


def test_degrees_of_freedom_are_satterthwaites():
    draw = np.random.default_rng(9)
    field = draw.normal(0, 30, 400) + draw.normal(2, 2, (4, 1))
    (low, high), p = seeds_and_queries([field], draws=6000)
    seeds, queries = field.mean(1).var(ddof=1) / 4, field.mean(0).var() / 400
    freedom = (seeds + queries) ** 2 / (seeds**2 / 3)
    half = scipy.stats.t.ppf(0.975, freedom) * math.sqrt(seeds + queries)
    assert (high - low) / 2 == pytest.approx(half, rel=0.03) and freedom > 4
    t = field.mean() / math.sqrt(seeds + queries)
    assert p == pytest.approx(2 * scipy.stats.t.sf(abs(t), freedom), rel=0.1)


@pytest.mark.parametrize('of_seeds', [0.5, 2.0, 8.0])
def test_intervals_of_three_seeds_hold_what_they_say(of_seeds):
    """Of 400 comparisons of nothing one in twenty excludes 0; resampled seeds would every fourth.

    Queries are new in each, as in a test on another corpus.
    """
    draw = np.random.default_rng(10)
    missed = 0
    for _ in range(400):
        field = draw.normal(0, 20, 100) + draw.normal(0, of_seeds, (3, 1))
        (low, high), p = seeds_and_queries([field], draws=200)
        missed += low > 0 or high < 0
        assert (p < 0.05) == (low > 0 or high < 0)
    assert 0.02 * 400 <= missed <= 0.08 * 400


def test_of_seeds_is_scipys_t_test():
    for values in ([1.0, 2.5, -0.5], [3.0, 3.1, 2.9, 3.3], [-4.0, 1.0]):
        expected = scipy.stats.ttest_1samp(values, 0.0)
        found, ends = of_seeds(values), expected.confidence_interval()
        assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
        assert found.interval == pytest.approx((ends.low, ends.high), rel=1e-9)
        above = scipy.stats.ttest_1samp(values, -2.0, alternative='greater').pvalue
        below = scipy.stats.ttest_1samp(values, 2.0, alternative='less').pvalue
        assert found.p_within(2.0) == pytest.approx(max(above, below), rel=1e-9)
    assert of_seeds([5.0]).p == 1.0 and of_seeds([5.0]).interval == (-math.inf, math.inf)
    assert of_seeds([5.0]).p_within(9.0) >= 0.5  # one training says nothing
    same = of_seeds([2.0, 2.0])
    assert (same.p, same.p_within(3.0), same.p_within(1.0)) == (0.0, 0.0, 1.0)
    assert of_seeds([0.0, 0.0]).p == 1.0


@pytest.mark.parametrize('true, said', [(0.0, 0.93), (2.0, 0.05)])
def test_equivalence_is_claimed_as_often_as_is_said(true, said):
    """At the margin one time in twenty, well inside it nearly always (4 seeds, deviation 1)."""
    draw = np.random.default_rng(12)
    claimed = [of_seeds(draw.normal(true, 1.0, 4)).p_within(2.0) < 0.05 for _ in range(2000)]
    power = scipy.stats.t.ppf(0.95, 3)  # of two one-sided tests: |mean| < 2 - t s / 2
    drawn = np.random.default_rng(13).normal(true, 1.0, (20_000, 4))
    expected = np.mean(abs(drawn.mean(1)) < 2 - power * drawn.std(1, ddof=1) / 2)
    assert np.mean(claimed) == pytest.approx(expected, abs=0.02)
    assert abs(expected - said) < 0.2


@pytest.mark.parametrize('matters', [2.0, 5.0, 10.0])
def test_seeds_needed_have_the_power_that_is_said(matters):
    gains = [1.0, 9.0, -2.0, 4.0]
    deviation, n = np.std(gains, ddof=1), seeds_needed(gains, matters)

    def power(n):  # of Student's test, from the noncentral t
        shift = matters / deviation * math.sqrt(n)
        return 1 - scipy.stats.nct.cdf(scipy.stats.t.ppf(0.975, n - 1), n - 1, shift)

    assert n > 2 and power(n) > 0.78 and power(math.floor(0.75 * n)) < 0.8
    assert seeds_needed(gains, 0.01) is None


@pytest.mark.parametrize('freedom, t', [(1, 12.7062), (2, 4.30265), (4, 2.77645), (30, 2.04227)])
def test_student_quantile(freedom, t):
    assert student_quantile(freedom) == pytest.approx(t, rel=1e-4)
