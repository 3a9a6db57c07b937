"""real_scores.py: its draws, its table of transforms, the bar of 'auto', and one's own arrays."""

import importlib
import json
import re
import sys

import numpy as np
import pytest
import torch

from children import ROOT
from mmvtr.functional.transforms.transform_table import TRANSFORMS

CELLS = ROOT / 'projects/lab/evidence/cells/real_scores.json'
PAGE = ROOT / 'projects/lab/evidence/pages/real_scores.md'


@pytest.fixture(scope='module')
def tool():
    """The modules by name."""
    names = 'real_scores judging.drawn judging.measures judging.corpora'
    names += ' judging.real_sets judging.real_transforms judging.real_page judging.real_drift'
    return {name.split('.')[-1]: importlib.import_module(name) for name in names.split()}


@pytest.fixture
def judged():
    draw = torch.Generator().manual_seed(0)
    scores = torch.rand(40, 40, generator=draw) + 0.3 * torch.eye(40)
    grades = torch.rand(40, 40, generator=draw).double()
    grades[torch.rand(40, 40, generator=draw) < 0.7] = torch.nan
    return scores, grades


def part(tool, scores, grades=None, at_least=0.5):
    numbers = torch.arange(len(scores))
    return tool['real_sets'].Part(
        scores, numbers, numbers, torch.arange(scores.shape[1]), grades=grades, at_least=at_least
    )


def test_the_whole_is_as_the_other_study_measures_it(tool, judged):
    scores, grades = judged
    one = part(tool, scores, grades)
    drawn = tool['drawn'].draws([one], 5)
    found = tool['drawn'].measured([scores], [one], drawn)
    matrices = tool['corpora'].Matrices(scores, scores, scores, grades, 0.5)
    whole = tool['measures'].measure(scores, tool['measures'].known(matrices, 't2v'))
    for key in ('R1', 'P1', 'AP'):
        values = getattr(whole, key)
        for column, rows in enumerate((slice(None), slice(0, None, 2), slice(1, None, 2))):
            assert found[key][column].item() == pytest.approx(float(values[rows].nanmean()))


def test_a_draw_is_a_smaller_gallery(tool, judged):
    """Queries count as often as they are drawn; what is not drawn but the own item is gone."""
    scores, grades = judged
    one = part(tool, scores, grades)
    drawn = tool['drawn'].draws([one], 3)
    found = tool['drawn'].measured([scores], [one], drawn)
    for column in (3, 4, 5):
        there = drawn.present[:, column]
        sums = dict(R1=[0.0, 0], AP=[0.0, 0])
        for q in range(40):
            kept = [v for v in range(40) if there[v] or v == q]
            order = sorted(kept, key=lambda v: -scores[q, v].item())
            times = drawn.weights[q, column].item()
            sums['R1'][0] += times * (order[0] == q)
            sums['R1'][1] += times
            listed = [v for v in order if v != q and not grades[q, v].isnan()]
            hits = [n for n, v in enumerate(listed) if grades[q, v] >= 0.5]
            if hits:
                ap = np.mean([(k + 1) / (n + 1) for k, n in enumerate(hits)])
                sums['AP'][0] += times * ap
                sums['AP'][1] += times
        for key, (top, count) in sums.items():
            assert found[key][column].item() == pytest.approx(100 * top / count)
        assert not there.all()


def test_graded_lists(tool):
    """nDCG of graded items alone, with the own one and without; by loops."""
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.8]])
    grades = torch.tensor([[100.0, 20.0, 50.0, torch.nan]], dtype=torch.float64)
    one = part(tool, scores, grades, None)
    found = tool['drawn'].measured([scores], [one], tool['drawn'].draws([one], 1))
    gain = np.log2([2, 3, 4])
    best = 100 / gain[0] + 50 / gain[1] + 20 / gain[2]
    expected = 20 / gain[0] + 50 / gain[1] + 100 / gain[2]
    assert found['nDCG'][0].item() == pytest.approx(100 * expected / best)
    others = (20 / gain[0] + 50 / gain[1]) / (50 / gain[0] + 20 / gain[1])
    assert found['nDCG_others'][0].item() == pytest.approx(100 * others)


def test_the_whole_table_is_tried(tool):
    names = {one.transform for one in tool['real_transforms'].settings()}
    assert names == {*TRANSFORMS, 'raw', 'invgc'} - {'sure_first', 'hedged_scaling'}
    shown = [one.transform for one in tool['real_transforms'].SHOWN]
    assert sorted(shown) == sorted(names - {'raw'})
    assert {*tool['real_transforms'].SHOWN} <= {*tool['real_transforms'].settings()}


def test_no_own_pair_is_in_the_bank(tool):
    texts = torch.randn(21, 4)
    parts = tool['real_sets'].halved(texts, texts.clone())
    assert len(parts) == 8
    for one in parts:
        assert one.bank.shape[1] == len(one.items) == len(one.queries)
        seen = torch.nn.functional.normalize(texts[one.items], dim=1) @ one.seen.items.T
        assert seen.amax() < 0.9999
        assert torch.equal(one.scores.argmax(1), one.own)


def test_served_queries_are_not_those_that_ask(tool):
    texts, sounds = torch.randn(10, 4), torch.randn(10, 4)
    own, asked = torch.arange(2, 8), torch.tensor([3, 1])
    one = tool['real_drift']._asked(texts, sounds, own, asked)
    expected = torch.nn.functional.cosine_similarity(sounds[[5, 3]], texts[[5, 3]])
    torch.testing.assert_close(one.scores[[0, 1], one.own], expected)


def case(gains, auto, extra=0.0):
    return dict(
        raw=dict(R1=50.0, AP=40.0),
        bank=dict(gains={k: dict(R1=x) for k, x in gains.items()}, best='a 1', honest=1.0),
        auto=dict(gains=dict(R1=[auto, 0, 0], AP=[extra, 0, 0]), chosen={}),
        auto_texts=dict(gains=dict(R1=[-1.0, 0, 0], AP=[0, 0, 0]), chosen={}),
    )


def test_the_bar(tool):
    sets = dict(one=case({'a 1': 4.0, 'b': 1.0}, 3.0), two=case({'a 1': 2.0, 'b': 1.0}, 2.0, -1.5))
    found = tool['real_page'].bar(sets)
    assert found['best'] == 3 and found['one'] == 'a 1' and found['auto']['mean'] == 2.5
    assert found['auto']['lowest_AP'] == -1.5 and found['auto']['AP_of'] == 'two'
    lines = '\n'.join(tool['real_page']._auto(sets))
    assert '| +2.50 | 83 % | +2.0 (two) | -1.5 (two) | missed: EXTRA |' in lines
    assert 'missed: share, R@1' in lines


@pytest.mark.parametrize('bank', [0, 1, 2])
def test_ones_own_arrays(tool, bank, tmp_path, monkeypatch, capsys):
    random = np.random.default_rng(0)
    content = random.normal(size=(60, 6))
    arrays = [content + random.normal(size=content.shape) for _ in range(2)]
    arrays += [random.normal(size=(30, 6)) for _ in range(bank)]
    paths = [tmp_path / f'{n}.npy' for n, _ in enumerate(arrays)]
    for path, array in zip(paths, arrays):
        np.save(path, array)
    np.savez(tmp_path / 'matrix.npz', scores=9 * np.eye(60) + content @ content.T / 3)
    arguments = ['real_scores.py', '--own', *map(str, paths)]
    arguments += ['--own', str(tmp_path / 'matrix.npz'), '--out', str(tmp_path)]
    monkeypatch.setattr(sys, 'argv', arguments)
    tool['real_scores'].main()
    found = json.loads((tmp_path / 'cells/real_scores.json').read_text())['sets']
    found = {name.partition(', ')[2]: x for name, x in found.items()}
    assert [*found] == ['0 t2v', '0 v2t', 'matrix t2v', 'matrix v2t']
    assert found['0 t2v']['gallery'] == (60 if bank else 30)
    assert ('auto' in found['0 t2v']) == (bank != 1) and 'auto_texts' in found['0 t2v']
    assert 'auto' not in found['matrix t2v'] and found['matrix t2v']['raw']['R1'] > 80
    low, mean, high = (found['0 t2v']['test']['gains']['csls 10']['R1'][n] for n in (1, 0, 2))
    assert low <= mean <= high
    assert "## `transform='auto'`" in (tmp_path / 'pages/real_scores.md').read_text()


def test_the_page_is_of_the_cells(tool):
    assert tool['real_page'].page(json.loads(CELLS.read_text())) == PAGE.read_text()


def test_the_documentation_says_what_was_found(tool):
    found = json.loads(CELLS.read_text())
    sets = found['sets']
    page = (ROOT / 'docs/judgments.md').read_text()
    assert '\n'.join(tool['real_page'].kinds(sets)) in page
    fits = [found['calibration'][x] for x in ('platt', 'isotonic')]
    said = ' '.join((ROOT / 'docs/how_sure.md').read_text().split())
    about = said[said.index('calibration error on the other half') :][:200]
    values = fits[0]['error'], fits[1]['error'], fits[0]['by_chance']
    assert re.findall(r'0\.\d{3}', about)[:3] == [f'{x:.3f}' for x in values], about
    graded = [x for x in sets.values() if 'nDCG' in x['raw']]
    assert len(graded) == 3 and sum(x['queries'] for x in graded) == 600
    for x in graded:
        assert {*x['auto']['chosen']} == {'None'}
        for gain in x['bank']['gains'].values():
            one = gain['nDCG']
            mean, low, high = one if isinstance(one, list) else (one, -9, 9)
            assert mean < 0.5 and low < 0 < high
