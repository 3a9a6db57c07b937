"""eval_scores: repeats in a bank count once, and a bank of the test's own queries is named."""

import json

import numpy as np
import pytest

from children import run_tool


def unit(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype('f4')


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    texts, videos, bank = (unit(random.normal(size=(n, 16))) for n in (60, 60, 50))
    seen = unit(random.normal(size=(50, 16)))
    often = np.concatenate([np.arange(50), np.zeros(200, int)])
    np.save(tmp_path / 'scores.npy', texts @ videos.T)
    for name, rows in (('once', slice(None)), ('often', often)):
        np.save(tmp_path / f'{name}_t2v.npy', bank[rows] @ videos.T)
        np.save(tmp_path / f'{name}_v2t.npy', texts @ seen[rows].T)
    near = unit(texts + videos)
    np.save(tmp_path / 'near.npy', texts @ near.T)
    np.save(tmp_path / 'distances.npy', 1 - texts @ near.T)
    return tmp_path


def evaluate(folder, bank):
    banks = ['--bank-t2v', f'{bank}_t2v.npy', '--bank-v2t', f'{bank}_v2t.npy']
    names = ['sinkhorn', 'csls', 'nnn', 'qb_norm', 'auto']
    options = ['--transform', *names, '--query-source', 'bank', *banks, '--out', f'{bank}.json']
    code, printed = run_tool(folder, 'analysis_tools/eval_scores.py', 'scores.npy', *options)
    assert code == 0, printed
    return (folder / f'{bank}.json').read_text(), printed


def test_repeats_count_once(folder):
    numbers, printed = evaluate(folder, 'often')
    assert numbers == evaluate(folder, 'once')[0]
    assert '50 different texts, 50 different videos' in printed and 'transductive' not in printed


@pytest.mark.parametrize('own, other', [('t2v', 'v2t'), ('v2t', 't2v')])
def test_a_bank_of_one_direction(own, other, folder):
    """A company has texts alone: the other direction is not transformed, and not told."""
    both = json.loads(evaluate(folder, 'often')[0])
    names = ['sinkhorn', 'csls', 'auto']
    given = ['--transform', *names, '--query-source', 'bank', '--out', 'one.json']
    given += [f'--bank-{own}', f'often_{own}.npy']
    code, printed = run_tool(folder, 'analysis_tools/eval_scores.py', 'scores.npy', *given)
    assert code == 0, printed
    assert f'--bank-{own} alone: ' in printed and 'is not transformed' in printed
    found = json.loads((folder / 'one.json').read_text())
    assert found['raw'] == both['raw']
    for name in names:
        mine = {key: x for key, x in both[name].items() if key.startswith(own)}
        assert len(mine) > 5 and not any(other in key or key == 'rsum' for key in found[name])
        assert {key: found[name][key] for key in mine} == mine


def test_a_bank_of_the_test_is_transductive(folder):
    scores = np.load(folder / 'scores.npy')
    for direction in ('t2v', 'v2t'):
        np.save(folder / f'test_{direction}.npy', scores)
    printed = evaluate(folder, 'test')[1]
    assert 'transductive: 60 of the 60 test texts are in the bank' in printed
    assert 'transductive: 60 of the 60 test videos are in the bank' in printed


def test_distances_get_the_hint(folder):
    for name, hinted in (('near', False), ('distances', True), ('scores', False)):
        code, printed = run_tool(folder, 'analysis_tools/eval_scores.py', f'{name}.npy')
        assert code == 0 and ('are these distances?' in printed) == hinted, printed
