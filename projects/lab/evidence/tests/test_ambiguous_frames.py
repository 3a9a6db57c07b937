"""ambiguous_frames.py: its corpus, its columns against loops, its table."""

import runpy
import sys

import pytest
import torch
from torch.nn.functional import cosine_similarity as cos

from children import ROOT
from mmvtr.structures import Embedding
from mmvtr.utils import register_all_modules

TOOL = str(ROOT / 'projects/lab/evidence/ambiguous_frames.py')
SMALL = '--videos 12 --moments 2 --frames 4 --steps 2 --batch 6 --dim 8 --seeds 0'


@pytest.fixture(scope='module')
def tool():
    register_all_modules()
    return runpy.run_path(TOOL)


@pytest.fixture
def args(tool, monkeypatch):
    monkeypatch.setattr(sys, 'argv', [TOOL, *SMALL.split()])
    return tool['parse_args']()


def test_a_corpus_of_moments(tool, args):
    torch.manual_seed(0)
    args.noise = args.scene = 0.0
    corpus = tool['draw'](args)
    assert corpus.frames.shape == (12, 8, 64) and corpus.words.shape == (24, 4, 64)
    assert (corpus.moments.diff(dim=1) >= 0).all() and set(corpus.moments.flatten().tolist()) == {
        0,
        1,
    }
    for frames, moments in zip(corpus.frames, corpus.moments):
        same = cos(frames[:, None], frames[None], -1) > 0.999
        assert torch.equal(same, moments[:, None] == moments)
    part = corpus.part(torch.tensor([3, 1]))
    assert torch.equal(part.words, corpus.words[[6, 7, 2, 3]])
    assert torch.equal(part.own, torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]]).bool())


def test_columns_against_loops(tool, args):
    """One branch's numbers, by the definition, of random embeddings."""
    torch.manual_seed(1)
    corpus = tool['draw'](args)
    mask = torch.ones(12, 8, dtype=torch.bool)
    texts = {level: Embedding(torch.randn(24, 8)) for level in 'ab'}
    videos = {level: Embedding(torch.randn(12, 8), torch.randn(12, 8, 8), mask) for level in 'ab'}
    arl = tool['supervision'](8, frame_u_spread=0.0, frame_slack=0.4)
    found = tool['judge'](arl, texts, videos, corpus)
    columns = []
    for level in 'ab':
        branch, pairs, pushed, right = arl.branches[level], [], [], []
        for t, text in enumerate(texts[level].mean):
            frames, told = videos[level].tokens[t // 2], t % 2
            s = [float(cos(text, frame, 0)) for frame in frames]
            best = max(range(8), key=lambda k: s[k])
            u = [
                float(text / text.norm() @ branch.frame_mean + f / f.norm() @ branch.text_mean) / 2
                for f in frames
            ]
            spared = [
                k
                for k in range(8)
                if k != best and s[k] > s[best] - 0.4 and u[k] > branch.frame_tau_u
            ]
            pairs.append(bool(spared))
            if corpus.moments[t // 2, best] == told:
                own = [k for k in range(8) if k != best and corpus.moments[t // 2, k] == told]
                pushed += [k not in spared for k in own]
                right += [k in own for k in spared]
            else:
                right += [False] * len(spared)
        columns.append([100 * sum(x) / len(x) for x in (pairs, pushed, right)])
    assert found == pytest.approx([sum(x) / 2 for x in zip(*columns)], rel=1e-4)
    assert all(0 < x < 100 for x in found)


def test_table(tool, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', [TOOL, *SMALL.split()])
    tool['main']()
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith('|')]
    assert len(rows) == 2 + len(tool['RULES'])
    assert '1 seeds, 24 pairs, moments of 4 frames' in printed
