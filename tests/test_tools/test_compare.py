"""tools/analysis_tools/compare.py: what is resolved and what is not, and each bad input."""

import json
import runpy
import sys

import numpy as np
import pytest

from children import ROOT, run_tool
from mmvtr.datasets import PairValues, write_qrels, write_run

TOOL = 'analysis_tools/compare.py'
TEXTS, VIDEOS = 240, 80


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Three texts a video; two seeds of one method, and one that finds more but ranks b lower."""
    folder = tmp_path_factory.mktemp('scores')
    owner = np.arange(TEXTS) // 3
    pairs = owner[:, None] == np.arange(VIDEOS)
    other = (owner[:, None] + 1) % VIDEOS == np.arange(VIDEOS)  # right, though not annotated
    wrong = (owner[:, None] + 2) % VIDEOS == np.arange(VIDEOS)
    for name, strength, of_other, seed in (
        ('seed0', 2, 2, 0),
        ('seed1', 2, 2, 1),
        ('new', 4, 0, 0),
    ):
        noise = np.random.default_rng(seed).normal(size=(TEXTS, VIDEOS))
        np.save(folder / f'{name}.npy', noise + strength * pairs + of_other * other)
    np.save(folder / 'owner.npy', owner)
    ids = ([f't{t}' for t in range(TEXTS)], [f'v{v}' for v in range(VIDEOS)])
    judged = np.where(other, 1.0, np.where(wrong, 0.0, np.nan))
    write_qrels(folder / 'judged.qrels', PairValues.of_matrix(judged, *ids))
    write_qrels(folder / 'own.qrels', PairValues.of_matrix(np.where(pairs, 1.0, np.nan), *ids))
    for name in ('seed0', 'new'):
        scores = np.load(folder / f'{name}.npy')
        arrays = dict(t2v=scores, v2t=scores)
        np.savez(folder / f'{name}.npz', text_ids=ids[0], video_ids=ids[1], **arrays)
        order = np.random.default_rng(2).permutation(TEXTS)
        shuffled = [ids[0][t] for t in order], ids[1]
        write_run(folder / f'{name}.run', PairValues.of_matrix(scores[order], *shuffled))
    return folder


def compare(folder, *arguments):
    code, printed = run_tool(folder, TOOL, *arguments, '--out', 'out.json')
    assert code == 0, printed
    return json.loads((folder / 'out.json').read_text())['systems'], printed


def test_two_seeds_are_not_resolved(folder):
    found, printed = compare(folder, 'seed0.npy', 'seed1.npy', '--positives', 'owner.npy')
    assert {x['verdict'] for x in found['seed1'].values()} == {'not resolved'}
    assert 'seed1: not resolved in any metric' in printed and 'over 6 comparisons' in printed
    assert found['seed1']['t2v_R1']['clusters'] == VIDEOS


def test_a_gain_and_a_loss_are_both_found(folder):
    qrels = ('--positives', 'own.qrels', '--judgments', 'judged.qrels')
    found, printed = compare(folder, 'seed0.npz', 'new.run', *qrels, '--plot', 'p.png')
    new = found['new']
    assert new['t2v_R1']['verdict'] == 'better' and new['judged_t2v_extra_AP']['verdict'] == 'worse'
    assert new['t2v_R1']['mean'] == pytest.approx(new['t2v_R1']['own'] - new['t2v_R1']['base'])
    scores = [np.load(folder / f'{name}.npy') for name in ('seed0', 'new')]
    hits = [x.argmax(1) == np.arange(TEXTS) // 3 for x in scores]
    assert new['t2v_R1']['gained'] == (hits[1] & ~hits[0]).sum()
    assert new['t2v_R1']['own'] == pytest.approx(100 * hits[1].mean())
    assert (folder / 'p.png').stat().st_size > 5000
    assert 'better in t2v_R1' in printed and 'worse in' in printed
    alone, _ = compare(folder, 'seed0.npz', 'new.npz', *qrels, '--by', 'query')
    assert alone['new']['t2v_R1']['clusters'] == TEXTS
    assert alone['new']['t2v_R1']['mean'] == new['t2v_R1']['mean']


@pytest.fixture(scope='module')
def main():
    return runpy.run_path(str(ROOT / 'tools' / TOOL))['main']


@pytest.mark.parametrize(
    'arguments, message',
    [
        ('seed0.npy', 'needs two files'),
        ('seed0.npy seed0.npy', 'given twice'),
        ('seed0.npy none.npy --positives owner.npy', 'none.npy does not exist'),
        ('seed0.npy seed1.npy', 'are not pairs'),
        ('seed0.npy new.run --positives owner.npy', 'new.run is a run: give the matches'),
        ('seed0.npy owner.npy --positives owner.npy', 'owner.npy must be 2-d scores'),
        ('seed0.npy small.npy --positives owner.npy', 'is of [2, 2] texts and videos, the others'),
        ('seed0.npz other.npz --positives own.qrels', "other.npz has text 'u', which another"),
        ('seed0.npy seed1.npy --positives owner.npy --level 2', 'between 0 and 1'),
        (
            'seed0.npy seed1.npy --positives owner.npy --metrics t2v_R2',
            "'t2v_R2' does not exist; there are",
        ),
    ],
)
def test_what_is_refused(folder, main, monkeypatch, arguments, message):
    np.save(folder / 'small.npy', np.eye(2))
    with np.load(folder / 'new.npz') as whole:
        arrays = {name: whole[name] for name in whole.files}
    arrays['text_ids'][3] = 'u'
    np.savez(folder / 'other.npz', **arrays)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, 'argv', [TOOL, *arguments.split()])
    with pytest.raises(SystemExit) as error:
        main()
    assert message in error.value.code and len(error.value.code) <= 500


def test_without_scipy(folder, main, monkeypatch):
    for name in [name for name in sys.modules if name.split('.')[0] == 'scipy']:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, 'scipy', None)
    monkeypatch.chdir(folder)
    words = [TOOL, 'seed0.npy', 'seed1.npy', '--positives', 'owner.npy']
    monkeypatch.setattr(sys, 'argv', words)
    with pytest.raises(SystemExit, match='^error: this needs the package scipy, .* pip install'):
        main()
