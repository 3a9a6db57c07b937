"""The arithmetic of effects.py: reading cells, paired differences, intervals, verdicts."""

import importlib
import json
import math
import statistics

import numpy as np
import pytest

SEEDS = (0, 1, 2)
KS = (1, 5, 10)


@pytest.fixture
def files():
    return importlib.import_module('comparison.files')


@pytest.fixture
def stats(files):
    return importlib.import_module('comparison.statistics')


@pytest.fixture
def verdicts(files):
    return importlib.import_module('comparison.verdicts')


def fields(method='dvtr', seed=0, *, hits=(1, 0, None, 1), recalls=(3, 0, 1, 2), **changes):
    """A cell whose test agrees with its queries."""
    known = [int(hit) for hit in hits if hit not in (None, '-')]
    test = {
        'retrieval/rsum': 200 * statistics.mean(recalls),
        'semantic/v2t_P1': 100 * statistics.mean(known),
        'semantic/v2t_mAP': 30.0 + seed,
    }
    queries = dict(
        t2v_recalls=list(recalls),
        v2t_recalls=list(recalls),
        v2t_P1=hits if isinstance(hits, str) else list(hits),
    )
    cell = dict(
        condition='general21',
        method=method,
        seed=seed,
        role='own',
        config='configs/x.py',
        config_sha='0a1b2c',
        command='python tools/train.py configs/x.py',
        chosen={'optim_wrapper.optimizer.lr': 0.001},
        made=dict(date='2026-11-21', commit='abc1234', machine='2 x CPU', tower='a1'),
        cpu_seconds=30.0,
        val={'retrieval/rsum': 150.0},
        test=test,
        queries={'': queries},
    )
    return {**cell, **changes}


def save(folder, *cells):
    path = folder / 'cells.jsonl'
    path.write_text(''.join(json.dumps(cell) + '\n' for cell in cells))
    return path


@pytest.fixture
def row(files):
    """Makes a row of cells, one for each dict of arguments of ``fields``."""

    def make(name, *cells, transform=''):
        loaded = {}
        for seed, arguments in enumerate(cells):
            loaded[seed] = files.cell_of(fields(name, seed, **arguments), 'a line')
        return files.Row(name, transform, loaded)

    return make


def test_cells_are_read_in_order(files, tmp_path):
    given = [fields(*these) for these in (('dvtr', 1), ('c2v_plain', 0), ('dvtr', 0))]
    given.append(fields('dvtr', 0, role='matched', hits='10-1'))
    save(tmp_path, *given)
    cells = files.load_cells(tmp_path)
    names = [cell[1:4] for cell in cells]
    expected = [('c2v_plain', 0, 'own'), ('dvtr', 0, 'matched'), ('dvtr', 0, 'own')]
    assert names == [*expected, ('dvtr', 1, 'own')]
    for cell in cells[:2]:
        assert np.array_equal(cell.queries['']['v2t_P1'], [1, 0, math.nan, 1], equal_nan=True)


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(role='best'), "'role' is 'best', expected one of ('own', 'recall', 'matched')"),
        (dict(seed='0'), "'seed' is '0', of the wrong type"),
        (dict(config_sha=7), "'config_sha' is '7', of the wrong type"),
        (dict(seed=False), "'seed' is 'False', of the wrong type"),
        (dict(made=dict(date='today', machine='it', tower='a1')), "'made' has no 'commit'"),
        (dict(test={'retrieval/rsum': math.nan}), "'test' of 'retrieval/rsum' is nan"),
        (dict(val={'retrieval/rsum': '3'}), "'val' of 'retrieval/rsum' is '3'"),
        (dict(test={'retrieval/rsum': 299.0}), "is 299.000, its 'queries' give 300.000"),
        (dict(queries={'': dict(t2v_P1=[None])}), "'queries' of 't2v_P1'"),
        (dict(queries={'': dict(t2v_P1=['a'])}), "'queries' of 't2v_P1'"),
        (dict(queries={'': dict(t2v_P1='1x')}), "'queries' of 't2v_P1'"),
        (dict(queries={'': dict(t2v_P1='--')}), "'queries' of 't2v_P1'"),
        (dict(queries={'': dict(t2v_P1='')}), "'queries' of 't2v_P1'"),
        (dict(seed=0), 'the same cell as'),
    ],
)
def test_damaged_cells_are_named(files, tmp_path, changes, message):
    save(tmp_path, fields(), {**fields(seed=2), **changes})
    with pytest.raises(ValueError, match='cells.jsonl, line 2: ') as raised:
        files.load_cells(tmp_path)
    assert message in str(raised.value) and len(str(raised.value).splitlines()) == 1


def test_files_that_are_no_cells_are_named(files, tmp_path):
    with pytest.raises(ValueError, match='no cells, expected'):
        files.load_cells(tmp_path)
    path = save(tmp_path, fields())
    path.write_text(path.read_text()[:50])
    with pytest.raises(ValueError, match='line 1: no JSON .*; remove it and run again'):
        files.load_cells(tmp_path)
    path.write_text('[1]')
    with pytest.raises(ValueError, match='expected a JSON object, not list'):
        files.load_cells(tmp_path)
    without = fields()
    del without['queries']
    path.write_text(json.dumps(without))
    with pytest.raises(ValueError, match="has no 'queries'"):
        files.load_cells(tmp_path)


def test_rows_of_transforms_read_their_own_keys(files):
    cell = fields()
    cell['test']['sinkhorn/retrieval/rsum'] = 250.0
    loaded = files.cell_of(cell, 'a line')
    rows = files.make_rows([loaded], dict(arl=('',), dvtr=('sinkhorn', '', 'inverted_softmax')))
    assert list(rows) == ['dvtr/sinkhorn', 'dvtr']  # no cells of arl, no keys of the last
    assert rows['dvtr/sinkhorn'].values('retrieval/rsum') == {0: 250.0}
    assert rows['dvtr'].values('retrieval/rsum') == {0: 300.0}
    assert rows['dvtr/sinkhorn'].queries(0, 'v2t_P1') is None


def test_texts_of_videos_are_read(files):
    assert files.check_text_videos([2, 0, 1], 'here') is None is files.check_text_videos(None, '')
    assert files.check_text_videos([0, 0, 1], 'here').tolist() == [0, 0, 1]


@pytest.mark.parametrize('given', [[0, -1], [0, 1.0], [True, 0], 'ab'])
def test_damaged_text_videos_are_named(files, given):
    with pytest.raises(ValueError, match='^here: expected a list with the position of the video'):
        files.check_text_videos(given, 'here')


def test_difference_takes_the_texts_along(stats, row):
    def cell(*right):
        """Six texts of two videos; all but the last text have a true item."""
        test = {'semantic/t2v_P1': 100 * statistics.mean(right[:5])}
        return dict(test=test, queries={'': dict(t2v_P1=[*right[:5], None])})

    ours, base = row('a', *[cell(1, 1, 1, 0, 0)] * 2), row('b', *[cell(0, 0, 0, 0, 0)] * 2)
    videos = np.array([0, 0, 0, 1, 1, 1])
    gain = stats.difference(ours, base, 'semantic/t2v_P1', videos)
    # Of four draws one has the first video twice (100), one the second (0), two both (60).
    half = 1.96 * statistics.pstdev([100, 60, 60, 0])
    assert gain.mean == pytest.approx(60)
    assert (gain.low, gain.high) == pytest.approx((60 - half, 60 + half), rel=0.05)
    with pytest.raises(ValueError, match="general21: 't2v_P1' has 6 values.*4 texts of 2 videos"):
        stats.difference(ours, base, 'semantic/t2v_P1', np.array([0, 0, 1, 1]))
    ours, base = row('c', {}, {}), row('d', {}, {})
    with pytest.raises(ValueError, match="general21: 'v2t_P1' has 4 values.*5 videos"):
        stats.difference(ours, base, 'semantic/v2t_P1', np.array([0, 0, 4, 4]))


def test_a_verdict_of_the_cost_alone_says_what_the_aim_is(stats, verdicts):
    def aim(low, high):
        return stats.Difference((low + high) / 2, low, high, (0, 1), True)

    said = [
        verdicts.word_said(word, aim(*ends), 5.0)
        for word, ends in dict(helps=(6, 9), harms=(-9, -6), costs=(-2, 9), nothing=(-1, 1)).items()
    ]
    assert said == ['**helps**', '**harms**', 'costs, aim not resolved', 'nothing']
    assert verdicts.word_said('harms', aim(-1, 4), 5.0) == '**harms**, aim nothing'
    assert verdicts.of_aim('harms', aim(-1, 4), 5.0) == 'nothing'
    assert verdicts.word_said('trade', aim(6, 9), 5.0) == '**trade**'
    assert [verdicts.of_aim('trade', aim(*ends), 5.0) for ends in ((6, 9), (-9, -1), (-1, 9))] == [
        'helps',
        'harms',
        'not resolved',
    ]


@pytest.mark.parametrize(
    'aim, gain, t2v, v2t, trades',
    [
        ('semantic/v2t_P1', (6, 9), (-3, -1), (-1, 1), True),  # the aim is truth of its direction
        ('semantic/t2v_mAP', (-3, -1), (-3, -1), (2, 9), True),
        ('semantic/v2t_P1', (6, 9), (-3, 1), (1, 3), False),
        ('semantic/v2t_P1', (-9, -6), (-3, -1), (-2, -1), False),
        ('retrieval/rsum', (6, 9), (-3, -1), (-1, 1), False),  # rsum is no truth
        ('retrieval/rsum', (-1, 9), (-3, -1), (1, 2), True),
        ('semantic/v2t_P1', (-9, -6), (1, 2), (1, 2), True),
        ('semantic/v2t_P1', (6, 9), None, None, False),
    ],
)
def test_a_trade_takes_from_one_direction_what_it_gives_the_other(
    stats, verdicts, aim, gain, t2v, v2t, trades
):
    gain, t2v, v2t = (
        ends and stats.Difference(sum(ends) / 2, *ends, SEEDS, True) for ends in (gain, t2v, v2t)
    )
    truth = verdicts.Truth(t2v, v2t)
    assert truth.trades(aim, gain) == trades
    word = verdicts.verdict(gain, None, matters=5, trades=trades)
    assert (word == 'trade') == trades


def test_one_seed_has_no_interval(stats, verdicts, row):
    ours, base = row('a', dict(hits=(1, 1, None, 1))), row('b', {}, {})
    gain = stats.difference(ours, base, 'semantic/v2t_P1')
    assert gain.mean == pytest.approx(100 / 3) and gain.seeds == (0,)
    assert (gain.low, gain.high, gain.sign) == (-math.inf, math.inf, 0) and not gain.of_queries
    assert verdicts.verdict(gain, None, matters=5) == 'unknown'


def test_identical_rows_differ_by_nothing(stats, row):
    cells = [{}, dict(hits=(0, 0, None, 1))]
    gain = stats.difference(row('a', *cells), row('b', *cells), 'semantic/v2t_P1')
    assert gain == stats.Difference(0.0, 0.0, 0.0, (0, 1), True, 1.0, (0.0, 0.0))
    assert gain.sign == 0


def test_difference_is_paired_by_seed_and_leaves_out_null(stats, row):
    ours = row('a', dict(hits=(1, 1, None, 1)), dict(hits=(1, 0, None, 1)), {})
    base = row('b', dict(hits=(0, 1, None, 1)), dict(hits=(1, 0, None, 0)))
    gain = stats.difference(ours, base, 'semantic/v2t_P1')
    assert gain.mean == pytest.approx(100 / 3) and gain.seeds == (0, 1)
    assert gain.low < gain.mean < gain.high and gain.of_queries
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


def test_share_of_the_gain_of_the_oracle(stats, row):
    def cell(true):
        return dict(hits=(1,) * true + (0,) * (40 - true), recalls=(3,) * 40)

    key = 'semantic/v2t_P1'
    base, ours, oracle = (
        row(name, *[cell(k)] * 2) for name, k in (('b', 10), ('a', 16), ('o', 30))
    )
    assert stats.share(ours, base, oracle, key) == pytest.approx(30)
    assert stats.share(oracle, base, oracle, key) == 100
    weak, bad = row('w', *[cell(11)] * 2), row('x', *[cell(1)] * 2)
    assert stats.difference(weak, base, key).sign == 0
    assert stats.share(ours, base, weak, key) is None
    assert stats.difference(bad, base, key).sign == -1
    assert stats.share(ours, base, bad, key) is None
    assert stats.share(ours, base, row('one', cell(30)), key) is None


def test_share_where_lower_is_better(stats, row):
    def cells(*values):
        return [dict(test={'length_bias/t2v_train_correlation': x}, queries={}) for x in values]

    key = 'length_bias/t2v_train_correlation'
    low, mid, high = (row(f'r{x}', *cells(x, x + 1, x + 2)) for x in (10, 25, 30))
    assert stats.share(mid, high, low, key) == pytest.approx(25)
    assert stats.share(mid, low, high, key) is None


@pytest.mark.parametrize(
    'name, controls, rows, expected',
    [
        ('ran', 'triplet', 'infonce triplet ran', 'triplet'),
        ('ran', 'triplet', 'infonce ran', 'infonce'),
        ('dvtr', '', 'infonce dvtr', 'infonce'),
        ('infonce', '', 'infonce dvtr', ''),
        ('split', 'random infonce two', 'infonce two split random', 'random infonce two'),
        ('split', 'random infonce two', 'infonce two split', 'infonce two'),
        ('ran', '', 'ran', ''),
        # As it is meant, its controls are the very rows named.
        ('ncl/s', 'infonce infonce/s', 'infonce infonce/s ncl ncl/s', 'infonce infonce/s'),
        ('ncl/s', 'infonce infonce/s', 'infonce ncl ncl/s', 'infonce'),
        ('both/s', 'own ncl/s', 'infonce infonce/s own own/s ncl ncl/s both/s', 'own ncl/s'),
    ],
)
def test_controls(files, name, controls, rows, expected):
    found = controls_of(files, name, controls, rows, meant=True)
    assert found == tuple(expected.split())


@pytest.mark.parametrize(
    'name, controls, rows, expected',
    [
        ('infonce/s', '', 'infonce infonce/s', 'infonce'),
        ('own/s', '', 'infonce infonce/s own own/s', 'infonce/s'),
        ('own/s', '', 'infonce own own/s', 'infonce'),
        ('ncl', 'infonce infonce/s', 'infonce infonce/s ncl ncl/s', 'infonce'),
        ('both', 'own ncl/s', 'infonce own ncl ncl/s both both/s', 'own ncl'),
        ('both/s', 'own', 'infonce infonce/s own own/s both/s', 'own/s'),
        ('both/s', 'own', 'infonce infonce/s own both/s', 'infonce/s'),
        ('both/s', 'own', 'infonce own both/s', 'infonce'),
    ],
)
def test_controls_of_other_rows_have_their_transform(files, name, controls, rows, expected):
    found = controls_of(files, name, controls, rows, meant=False)
    assert found == tuple(expected.split())


def controls_of(files, name, controls, rows, *, meant):
    made = {}
    for key in rows.split():
        method, _, transform = key.partition('/')
        made[key] = files.Row(method, transform, {})
    return files.controls_of(made[name], made, tuple(controls.split()), 'infonce', meant)


def test_time_ratio_is_the_median_of_common_seeds(stats, row):
    base = row('b', *(dict(cpu_seconds=x) for x in (10.0, 10.0, 20.0)))
    ours = row('a', *(dict(cpu_seconds=x) for x in (11.0, 30.0, 30.0, 99.0)))
    assert stats.time_ratio(ours, base) == 1.5
    assert stats.time_ratio(row('n', dict(cpu_seconds=None)), base) is None


@pytest.mark.parametrize(
    'aim, cost, lower, word',
    [
        ((1, 9), (-3, 1), False, 'helps'),
        ((1, 9), (-9, -2), False, 'helps'),
        ((-9, -1), None, False, 'harms'),
        ((-9, -1), None, True, 'helps'),
        ((1, 9), None, True, 'harms'),
        ((-1, 9), (-9, -2), False, 'costs'),
        ((-1, 9), (2, 9), False, 'not resolved'),
        ((-5.1, 1), None, False, 'not resolved'),
        ((-1, 5), (2, 9), False, 'nothing'),
        ((-1, 5), (-9, -2), False, 'harms'),
        ((0, 0), None, False, 'nothing'),
        ((0.5, 4), None, False, 'nothing'),  # resolved, and would not matter
        ((-4, -0.5), (-9, 1), False, 'nothing'),
        ((0.5, 4), (-9, -2), False, 'harms'),
        ((-math.inf, math.inf), None, False, 'unknown'),
        (None, (1, 2), False, 'unknown'),
    ],
)
def test_verdicts(stats, verdicts, aim, cost, lower, word):
    aim, cost = (
        ends and stats.Difference(sum(ends) / 2, *ends, SEEDS, True) for ends in (aim, cost)
    )
    assert verdicts.verdict(aim, cost, matters=5, lower=lower) == word


def test_a_collapse_is_told_in_t2v(verdicts, row):
    def cell(t2v, v2t):
        recalls = {f'retrieval/{d}_R{k}': x for d, x in zip(('t2v', 'v2t'), (t2v, v2t)) for k in KS}
        return dict(test=recalls, queries={})

    # Chance of 400 videos: .25, 1.25 and 2.5.  An oracle has no paired recall in v2t.
    cells = [cell(8 / 3, 5), cell(2.7, 5), cell(30, 0)]
    assert verdicts.collapsed_seeds(row('a', *cells), 4.0) == (0,)
    assert verdicts.collapsed_seeds(row('a', *cells), None) == ()
    assert verdicts.collapsed_seeds(row('b', {}, {}), 4.0) == ()  # no recalls in its cells


def test_sums_of_recalls(files):
    numbers = {f'{p}retrieval/t2v_R{k}': k for p in ('', 'sinkhorn/') for k in KS}
    added = files.with_sums(numbers, ('', 'sinkhorn', 'absent'))
    assert set(added) - set(numbers) == {files.T2V_RSUM, f'sinkhorn/{files.T2V_RSUM}'}
    assert added[files.T2V_RSUM] == 16 and files.T2V_RSUM not in files.with_sums({'x': 1.0})
    both = files.with_sums({'semantic/t2v_mAP': 10.0, 'semantic/v2t_mAP': 20.0})
    assert both[files.BOTH_MAP] == 15.0
    v2t = files.with_sums({f'retrieval/v2t_R{k}': 2.0 * k for k in KS})
    assert v2t[files.V2T_RSUM] == 32.0
