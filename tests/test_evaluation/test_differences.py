"""Systems against a control: means, intervals, corrections, verdicts, each by another way."""

import csv
import io
import math

import numpy as np
import pytest
import scipy.stats

from mmvtr.evaluation.differences import (
    Measured,
    corrected,
    difference,
    differences_csv,
    differences_table,
    in_words,
)
from mmvtr.evaluation.seeds import of_seeds_and_queries


def of(values):
    """A metric without queries: one value a seed, from seed 0 on."""
    return Measured(dict(enumerate(values)))


def test_seeds_alone_are_scipys_paired_t_test():
    ours, theirs = [3.0, 5.0, 4.5], [2.0, 4.5, 1.0]
    found = difference('a', 'rsum', of(ours), of(theirs), margin=5.0)
    expected = scipy.stats.ttest_rel(ours, theirs)
    ends = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    assert found.p == pytest.approx(expected.pvalue) and found.over == 'seeds'
    assert (found.base, found.own, found.seeds) == (2.5, pytest.approx(12.5 / 3), 3)
    below = scipy.stats.ttest_rel(ours, [x + 5 for x in theirs], alternative='less').pvalue
    assert found.p_within == pytest.approx(below)


def test_only_seeds_of_both_count():
    found = difference(
        'a', 'x', Measured({0: 1.0, 2: 5.0, 3: 9.0}), Measured({2: 1.0, 3: 2.0, 7: 0.0})
    )
    assert (found.mean, found.base, found.own, found.seeds) == (5.5, 1.5, 7.0, 2)
    assert difference('a', 'x', of([1.0]), Measured({5: 1.0})) is None


def queries_of(*seeds, groups=()):
    """A metric that is a mean over queries of one direction."""
    arrays = {seed: (np.array(one, dtype=float),) for seed, one in enumerate(seeds)}
    means = {seed: float(np.nanmean(one[0])) for seed, one in arrays.items()}
    return Measured(means, arrays, groups)


def test_one_seed_has_the_interval_of_its_queries():
    nan = np.nan
    ours = queries_of([1, 0, 1, 1, nan, 1, 1, 1])
    theirs = queries_of([0, 1, 0, 0, nan, 0, 0, 1])
    found = difference('a', 'x', ours, theirs)
    assert (found.gained, found.lost, found.queries, found.clusters) == (5, 1, 7, 7)
    assert found.mean == pytest.approx(4 / 7) and found.low < found.mean < found.high
    # 2 of 2^6 sign vectors reach all 6, and 6 of 64 each side reach 4 at least
    assert found.p == pytest.approx(14 / 64) and found.over == 'queries'
    groups = (np.array([0, 0, 0, 0, 0, 0, 0, 1]),)
    together = difference('a', 'x', ours._replace(groups=groups), theirs._replace(groups=groups))
    assert together.clusters == 2 and together.p == 1
    other = queries_of([0, nan, 0, 0, nan, 0, 0, 1])
    with pytest.raises(ValueError, match='a, x: the two do not have values for the same queries'):
        difference('a', 'x', ours, other)


def test_seeds_and_queries_of_two_directions():
    """Arrays add up: their sum's estimate, of the differences of queries that have a value."""
    draw = np.random.default_rng(0)
    arrays = {s: tuple(100.0 * draw.integers(0, 2, n) for n in (60, 30)) for s in (3, 4, 8)}
    other = {s: tuple(100.0 * draw.integers(0, 2, n) for n in (60, 30)) for s in (3, 4, 8)}
    for one in (arrays, other):
        for fields in one.values():
            fields[0][7] = np.nan
    sums = [{s: sum(map(np.nanmean, f)) for s, f in one.items()} for one in (arrays, other)]
    groups = (np.arange(60) // 2, np.arange(30))
    rows = [Measured(values, one, groups) for values, one in zip(sums, (arrays, other))]
    found = difference('a', 'rsum', *rows, margin=50.0)
    kept = np.arange(60) != 7
    fields = [
        np.stack([(arrays[s][i] - other[s][i])[keep] for s in (3, 4, 8)])
        for i, keep in enumerate((kept, np.full(30, True)))
    ]
    expected = of_seeds_and_queries(fields, [groups[0][kept], groups[1]])
    assert found.mean == pytest.approx(np.mean([sums[0][s] - sums[1][s] for s in (3, 4, 8)]))
    assert (found.low, found.high) == pytest.approx(expected.interval)
    assert found.p == pytest.approx(expected.p) and found.over == 'seeds, queries'
    assert found.p_within == pytest.approx(expected.p_within(50.0))
    assert (found.queries, found.clusters) == (89, 30)


def test_one_seed_without_queries_says_nothing():
    found = difference('a', 'MdR', of([3.0]), of([9.0]), margin=100.0)
    (row,) = corrected([found])
    assert math.isinf(row.low) and row.p == 1 and row.p_within is None
    assert row.verdict() == 'not resolved' and '| none |' in differences_table([row])
    assert 'one seed' in in_words([row])


def rows():
    base = of([10.0, 10.1, 9.9, 10.0])
    systems = dict(
        up=[15.0, 15.2, 14.9, 15.1],
        down=[5.0, 5.2, 4.9, 5.1],
        same=[10.1, 10.0, 10.0, 9.9],
        loud=[30.0, 1.0, 20.0, 9.0],
    )
    return corrected(difference(k, 'x', of(v), base, margin=2.0) for k, v in systems.items())


def test_verdicts_after_holm():
    found = rows()
    assert [row.verdict() for row in found] == ['better', 'worse', 'equivalent', 'not resolved']
    assert [row.verdict(less=True) for row in found][:2] == ['worse', 'better']
    for raw, held in (('p', 'corrected'), ('p_within', 'corrected_within')):
        ps = np.array([getattr(row, raw) for row in found])
        order, least = np.argsort(ps), 0.0
        for rank, place in enumerate(order):  # the step-down rule, spelt out
            least = max(least, min(1.0, ps[place] * (len(ps) - rank)))
            assert getattr(found[place], held) == pytest.approx(least)
    none = corrected(row._replace(p_within=None) for row in found)
    assert none[2].verdict() == 'not resolved' and none[2].corrected_within is None


def test_equal_to_the_bit_is_identical_and_not_equivalent():
    base = of([10.0, 10.1, 9.9])
    found = [difference('idle', x, of([10.0, 10.1, 9.9]), base, margin=2.0) for x in 'xy']
    idle = corrected(found)
    assert [row.verdict() for row in idle] == ['identical', 'identical']
    said = 'idle is identical to the control in every value: does its option reach'
    assert said in in_words(idle)
    other = difference('idle', 'z', of([10.0, 10.1, 9.9 + 1e-9]), base, margin=2.0)
    assert other.verdict() != 'identical' and said not in in_words(corrected([*found, other]))
    texts = [queries_of([0.0, 1.0, flip, 1 - flip]) for flip in (0.0, 1.0)]
    assert difference('a', 'x', *texts).verdict() == 'not resolved'  # equal means, other queries


def test_table_and_csv_say_the_same():
    found = rows()
    lines = differences_table(found, less=['x']).splitlines()
    assert len(lines) == 6 and '| up | x | 10.00 | 15.05 | +5.05 |' in lines[2]
    assert lines[2].endswith('| **worse** |') and lines[4].endswith('| equivalent |')
    read = [*csv.DictReader(io.StringIO(differences_csv(found)))]
    assert [float(row['mean']) for row in read] == [row.mean for row in found]
    assert [row['verdict'] for row in read] == [row.verdict() for row in found]
    assert 'within 2 by two one-sided tests' in in_words(found, 2.0)
