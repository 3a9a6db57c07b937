"""tools/benchmark/cpu.py: each section, tiny; its anchors compute what mmvtr does."""

import importlib
import json
import math
import re
import subprocess
import sys

import pytest
import torch

from children import ROOT


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools/benchmark'))
    return importlib.import_module


@pytest.mark.nightly
def test_the_whole_tool(tmp_path):
    """In a process of its own, as a user runs it."""
    command = [sys.executable, str(ROOT / 'tools/benchmark/cpu.py'), '--quick', '--repeats', '1']
    command += ['--out', str(tmp_path), '--only']
    command += [
        'arrays',
        'large',
        'queries',
        'steps',
        'papers',
        'processes',
        'media',
        'evaluation',
        'stores',
        'tables',
        'fits',
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (tmp_path / 'cpu.md').read_text()
    found = json.loads((tmp_path / 'cpu.json').read_text())['rows']
    works = ' '.join(row['work'] for row in found)
    for name in (
        'retrieve sinkhorn',
        'mapped',
        'db_norm',
        'DVTR',
        'RetrievalMetric',
        'token_scores',
        'npy',
        'key',
        '2 workers',
        '2 processes',
    ):
        assert name in works and name in page
    assert all(row['ratios'][0] > 0 for row in found)
    for row in found:
        if (
            'queries' in row['work']
            or 'retrieve' in row['work']
            and row['same']
            or 'db_norm' in row['work']
        ):
            assert row['same'] == '100.0 %', row
        if 'Retrieval' in row['work'] or 'token' in row['work']:
            assert float(re.search(r'within (\S+)', row['same'])[1]) < 1e-5, row


@pytest.mark.nightly
def test_one_query_is_as_fast_as_exact_search_in_faiss(rows):
    pytest.importorskip('faiss')
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = rows('cpu_rows.queries').queries(False, 3)
    finally:
        torch.set_num_threads(threads)
    for row in found:
        assert row.same == '100.0 %', row
        if row.anchor == 'FAISS':
            assert min(row.ratios) < (2 if 'mapped' in row.work else 1.5), row


def copied(model, bare):
    """The bare form takes the weights of the retriever."""
    bare.project.load_state_dict(model.encoder.frames.projection.state_dict())
    for side, name in enumerate(('text', 'video')):
        head = model.heads[name]
        for place, pool, net in (
            (2 * side, head.mean_attention.score, head.mean_mlp),
            (2 * side + 1, head.spread_attention.score, head.spread_mlp),
        ):
            bare.pools[place][0].load_state_dict(pool[0].state_dict())
            bare.pools[place][1].load_state_dict(pool[2].state_dict())
            bare.maps[place].load_state_dict(net.state_dict())
        bare.norms[side].load_state_dict(head.norm.state_dict())
    with torch.no_grad():
        bare.scale.fill_(-math.log(0.05))
        bare.match.copy_(torch.stack([model.supervision.slope, model.supervision.bias]))


def test_the_bare_step_is_the_maths_of_dvtr(rows):
    """Losses of the bare form and of the retriever with its weights; one draws its own samples."""
    steps = rows('cpu_rows.steps')
    torch.manual_seed(0)
    frames, words = torch.randn(12, 3, steps.DIM), torch.randn(12, 2, steps.DIM)
    model, bare = steps.retriever(steps.DVTR), steps.BareDVTR(frames, words)
    copied(model, bare)
    batch = model.data_preprocessor(steps.collated(frames, words), True)
    expected = model(**batch, mode='loss')
    contrast, matched, aligned = bare.losses(*bare.encoded())
    torch.testing.assert_close(contrast, expected['loss_contrastive'], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(matched, expected['loss_match'], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(aligned, expected['loss_align'], rtol=0.05, atol=0.05)


def test_steps_by_hand_begin_with_the_same_loss(rows):
    papers = rows('cpu_rows.papers')
    found = papers.papers(True, 1)
    by_hand = [row for row in found if row.anchor == 'bare PyTorch']
    assert len(by_hand) == 4
    for row in by_hand:
        assert float(re.search(r'within (\S+)', row.same)[1]) < 1e-5, row
    step = papers.Step(papers.ARL, papers.features(16))
    step()
    for pairs in step.model.supervision.found.values():
        assert 0 < pairs.sum() < pairs.numel()  # else nothing ambiguous would be compared


def test_a_start_is_a_process_of_its_own(rows):
    starts = rows('cpu_rows.starts')
    assert 0 < starts._seconds(['-c', 'pass']) < starts._seconds(['-c', 'sum(range(10**7))'])
    with pytest.raises(RuntimeError, match='boom'):
        starts._seconds(['-c', "raise ValueError('boom')"])


def test_repeats(rows, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['cpu.py', '--repeats', '0'])
    with pytest.raises(SystemExit, match='at least 1, not 0'):
        rows('cpu').main()
