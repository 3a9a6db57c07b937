"""The arithmetic of effects.py: reading cells, paired differences, intervals, verdicts."""

import importlib
import json
import math
import random
import statistics

import numpy as np
import pytest

from children import ROOT

SEEDS = (0, 1, 2)


@pytest.fixture
def files(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools/benchmark'))
    return importlib.import_module('effects_files')


@pytest.fixture
def stats(files):
    return importlib.import_module('effects_statistics')


def fields(method='dvtr', seed=0, *, hits=(1, 0, None, 1), recalls=(3, 0, 1, 2), **changes):
    """A cell whose test agrees with its queries."""
    known = [hit for hit in hits if hit is not None]
    test = {
        'retrieval/rsum': 200 * statistics.mean(recalls),
        'semantic/v2t_P1': 100 * statistics.mean(known),
        'semantic/v2t_mAP': 30.0 + seed,
    }
    queries = dict(t2v_recalls=list(recalls), v2t_recalls=list(recalls), v2t_P1=list(hits))
    cell = dict(
        condition='ambiguity60',
        method=method,
        seed=seed,
        config='configs/x.py',
        command='python tools/train.py configs/x.py',
        chosen={'optim_wrapper.optimizer.lr': 0.001},
        made=dict(date='2026-11-21', commit='abc1234', machine='2 x CPU, torch 2.15'),
        cpu_seconds=30.0,
        val={'retrieval/rsum': 150.0},
        test=test,
        queries={'': queries},
    )
    return {**cell, **changes}


def save(folder, cell):
    path = folder / cell['condition'] / f'{cell["method"]}_{cell["seed"]}.json'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(cell))
    return path


@pytest.fixture
def row(files, tmp_path):
    """Makes a row of cells, one for each dict of arguments of ``fields``."""

    def make(name, *cells, transform=''):
        loaded = {}
        for seed, arguments in enumerate(cells):
            path = save(tmp_path, fields(name, seed, **arguments))
            loaded[seed] = files.load_cell(path)
        return files.Row(name, transform, loaded)

    return make


def test_cells_are_read_in_order(files, tmp_path):
    for method, seed in (('dvtr', 1), ('c2v_plain', 0), ('dvtr', 0)):
        save(tmp_path, fields(method, seed))
    (tmp_path / 'tuning.json').write_text('{}')
    cells = files.load_cells(tmp_path)
    names = [(cell.method, cell.seed) for cell in cells]
    assert names == [('c2v_plain', 0), ('dvtr', 0), ('dvtr', 1)]
    assert np.array_equal(cells[0].queries['']['v2t_P1'], [1, 0, math.nan, 1], equal_nan=True)


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(seed=1), 'say ambiguity60/dvtr_1.json'),
        (dict(condition='clean'), 'say clean/dvtr_0.json'),
        (dict(method='arl'), 'say ambiguity60/arl_0.json'),
        (dict(seed='0'), "'seed' is '0', of the wrong type"),
        (dict(seed=False), "'seed' is 'False', of the wrong type"),
        (dict(made=dict(date='today', machine='it')), "'made' has no 'commit'"),
        (dict(test={'retrieval/rsum': math.nan}), "'test' of 'retrieval/rsum' is nan"),
        (dict(val={'retrieval/rsum': '3'}), "'val' of 'retrieval/rsum' is '3'"),
        (dict(test={'retrieval/rsum': 299.0}), "is 299.000, its 'queries' give 300.000"),
        (dict(queries={'': dict(t2v_P1=[None])}), "'queries' of 't2v_P1'"),
        (dict(queries={'': dict(t2v_P1=['a'])}), "'queries' of 't2v_P1'"),
    ],
)
def test_damaged_cells_are_named(files, tmp_path, changes, message):
    path = save(tmp_path, fields())
    path.write_text(json.dumps({**fields(), **changes}))
    with pytest.raises(ValueError, match='dvtr_0.json') as raised:
        files.load_cells(tmp_path)
    assert message in str(raised.value) and len(str(raised.value).splitlines()) == 1


def test_files_that_are_no_cells_are_named(files, tmp_path):
    with pytest.raises(ValueError, match='no cells, expected'):
        files.load_cells(tmp_path)
    path = save(tmp_path, fields())
    path.write_text(path.read_text()[:50])
    with pytest.raises(ValueError, match='dvtr_0.json: no JSON .*remove the file'):
        files.load_cells(tmp_path)
    path.write_text('[1]')
    with pytest.raises(ValueError, match='expected a JSON object, not list'):
        files.load_cells(tmp_path)
    without = fields()
    del without['queries']
    path.write_text(json.dumps(without))
    with pytest.raises(ValueError, match="has no 'queries'"):
        files.load_cells(tmp_path)


def test_rows_of_transforms_read_their_own_keys(files, tmp_path):
    cell = fields()
    cell['test']['sinkhorn/retrieval/rsum'] = 250.0
    loaded = files.load_cell(save(tmp_path, cell))
    rows = files.make_rows([loaded], dict(arl=(), dvtr=('sinkhorn', 'inverted_softmax')))
    assert list(rows) == ['dvtr', 'dvtr/sinkhorn']  # no cells of arl, no keys of the last
    assert rows['dvtr/sinkhorn'].values('retrieval/rsum') == {0: 250.0}
    assert rows['dvtr'].values('retrieval/rsum') == {0: 300.0}
    assert rows['dvtr/sinkhorn'].queries(0, 'v2t_P1') is None


def slow_bootstrap(fields, draws=2000):
    """Percentiles of the resampled mean, one query at a time, by another generator."""
    dice, means = random.Random(3), []
    seeds = len(fields[0])
    for _ in range(draws):
        drawn = [[dice.randrange(len(f[0])) for _ in f[0]] for f in fields]
        total = 0.0
        for seed in (dice.randrange(seeds) for _ in range(seeds)):
            for f, those in zip(fields, drawn):
                total += sum(f[seed][q] for q in those) / len(those) / seeds
        means.append(total)
    means.sort()
    return means[int(0.025 * draws)], means[int(0.975 * draws)]


def test_bootstrap_is_that_of_a_loop(stats):
    draw = np.random.default_rng(0)
    spread = np.array([[10.0], [0.0], [-4.0]])
    fields = [100 * draw.integers(-1, 2, (3, size)) + spread for size in (40, 25)]
    found = stats.bootstrap(fields)
    expected = slow_bootstrap([f.tolist() for f in fields])
    width = expected[1] - expected[0]
    assert width > 20
    assert found == pytest.approx(expected, abs=0.06 * width)
    assert stats.bootstrap(fields) == found


def test_bootstrap_of_one_seed_has_the_normal_width(stats):
    values = 100.0 * np.random.default_rng(1).integers(-1, 2, (1, 900))
    low, high = stats.bootstrap([values], draws=6000)
    half = 1.96 * values.std() / math.sqrt(900)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.4)


def test_pairs_of_equal_number_are_drawn_together(stats):
    values = 100.0 * np.random.default_rng(2).integers(-1, 2, (1, 50))
    assert stats.bootstrap([values, -values]) == (0.0, 0.0)
    twice = stats.bootstrap([values, values])
    assert twice == pytest.approx([2 * end for end in stats.bootstrap([values])])


def test_identical_rows_differ_by_nothing(stats, row):
    cells = [{}, dict(hits=(0, 0, None, 1))]
    gain = stats.difference(row('a', *cells), row('b', *cells), 'semantic/v2t_P1')
    assert gain == stats.Difference(0.0, 0.0, 0.0, (0, 1), True) and gain.sign == 0


def test_difference_is_paired_by_seed_and_leaves_out_null(stats, row):
    ours = row('a', dict(hits=(1, 1, None, 1)), dict(hits=(1, 0, None, 1)), {})
    base = row('b', dict(hits=(0, 1, None, 1)), dict(hits=(1, 0, None, 0)))
    gain = stats.difference(ours, base, 'semantic/v2t_P1')
    assert gain.mean == pytest.approx(100 / 3) and gain.seeds == (0, 1)
    assert gain.low == 0 < gain.mean < gain.high <= 100 and gain.of_queries
    other = row('c', dict(hits=(None, 1, 0, 1)))
    with pytest.raises(ValueError, match='a and c of seed 0 have not the same queries in .v2t_P1'):
        stats.difference(ours, other, 'semantic/v2t_P1')
    assert stats.difference(ours, base, 'retrieval/none') is None


def test_measures_without_queries_have_students_interval(stats, row):
    def cells(*values):
        return [dict(test={'semantic/v2t_mAP': value}, queries={}) for value in values]

    ours, base = row('a', *cells(31.0, 33.0, 38.0)), row('b', *cells(30.0, 30.0, 30.0))
    gain = stats.difference(ours, base, 'semantic/v2t_mAP')
    half = 4.302653 * statistics.stdev([1, 3, 8]) / math.sqrt(3)
    assert (gain.low, gain.high) == pytest.approx((4 - half, 4 + half), abs=1e-4)
    assert not gain.of_queries
    one = stats.difference(row('c', *cells(31.0)), base, 'semantic/v2t_mAP')
    assert (one.mean, one.low, one.high, one.sign) == (1.0, -math.inf, math.inf, 0)


@pytest.mark.parametrize('freedom, t', [(1, 12.7062), (2, 4.30265), (4, 2.77645), (30, 2.04227)])
def test_student_quantile(stats, freedom, t):
    assert stats.student_quantile(freedom) == pytest.approx(t, rel=1e-4)


def test_share_of_the_gain_of_the_oracle(stats, row):
    def cell(true):
        return dict(hits=(1,) * true + (0,) * (40 - true), recalls=(3,) * 40)

    base, ours, oracle = (row(name, cell(k)) for name, k in (('b', 10), ('a', 16), ('o', 30)))
    assert stats.share(ours, base, oracle, 'semantic/v2t_P1') == pytest.approx(30)
    assert stats.share(oracle, base, oracle, 'semantic/v2t_P1') == 100
    weak = row('w', cell(11))
    assert stats.difference(weak, base, 'semantic/v2t_P1').low == 0
    assert stats.share(ours, base, weak, 'semantic/v2t_P1') is None


def test_time_ratio_is_the_median_of_common_seeds(stats, row):
    base = row('b', *(dict(cpu_seconds=x) for x in (10.0, 10.0, 20.0)))
    ours = row('a', *(dict(cpu_seconds=x) for x in (11.0, 30.0, 30.0, 99.0)))
    assert stats.time_ratio(ours, base) == 1.5
    assert stats.time_ratio(row('n', dict(cpu_seconds=None)), base) is None


@pytest.mark.parametrize(
    'aim, cost, lower, word',
    [
        ((1, 5), (-3, 1), False, 'helps'),
        ((1, 5), (-9, -2), False, 'helps'),
        ((-5, -1), None, False, 'harms'),
        ((-5, -1), None, True, 'helps'),
        ((1, 5), None, True, 'harms'),
        ((-1, 5), (-9, -2), False, 'costs'),
        ((-1, 5), (2, 9), False, 'nothing'),
        ((0, 0), None, False, 'nothing'),
        ((-math.inf, math.inf), None, False, 'unknown'),
        (None, (1, 2), False, 'unknown'),
    ],
)
def test_verdicts(stats, aim, cost, lower, word):
    aim, cost = (
        ends and stats.Difference(sum(ends) / 2, *ends, SEEDS, True) for ends in (aim, cost)
    )
    assert stats.verdict(aim, cost, lower=lower) == word
