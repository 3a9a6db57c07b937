"""tools/analysis_tools/cost.py: FLOPs that can be counted by hand, and a small config."""

import json
import runpy
import sys

import pytest
import torch
from torch import nn

import toy  # noqa: F401 - registers the towers
from children import ROOT
from mmvtr.apis import load_retriever

CONFIG = toy.RETRIEVER + (
    """
_dataset = dict(type='ToyVideos', names=('a', 'b'), video_pipeline=[
    dict(type='LoadVideo', sampling='uniform', num_frames=3)],
    text_pipeline=[dict(type='ToySay')])
train_dataloader = dict(
    batch_size=2,
    dataset=dict(**_dataset, epoch_unit='video'),
    sampler=dict(type='mmvtr.EpochSampler'),
    collate_fn=dict(type='mmvtr.collate_retrieval'),
)
"""
)


@pytest.fixture(scope='module')
def tool():
    return runpy.run_path(str(ROOT / 'tools/analysis_tools/cost.py'))


def test_flops_by_hand(tool):
    flops, made = tool['counted'](lambda: nn.Linear(5, 7)(torch.ones(3, 5)))
    assert flops == 2 * 3 * 5 * 7 and made.shape == (3, 7)
    lstm, x = nn.LSTM(4, 6, batch_first=True), torch.ones(2, 3, 4)
    with torch.backends.mkldnn.flags(enabled=False):
        flops, _ = tool['counted'](lambda: lstm(x))
    assert flops == 2 * 2 * 3 * (4 * 6 * 4 + 4 * 6 * 6)  # four gates, of input and of state


def test_a_small_config(tool, tmp_path, monkeypatch, capsys, write_video):
    monkeypatch.chdir(tmp_path)
    for name in 'ab':
        write_video(tmp_path / f'{name}.mp4', [10, 90, 200, 30])
    (tmp_path / 'c.py').write_text(CONFIG)
    model, _ = load_retriever('c.py', None, random_weights=True, device='cpu')
    given = ['cost.py', 'c.py', '--steps', '1', '--device', 'cpu', '--out', 'cost.json']
    monkeypatch.setattr(sys, 'argv', given)
    tool['main']()
    printed = capsys.readouterr().out
    row = json.loads((tmp_path / 'cost.json').read_text())['c']
    total = sum(p.numel() for p in model.parameters())
    assert row['parameters'] == pytest.approx(total / 1e6)
    # Words: 8 of 2 numbers; frames: one scale.
    assert row['text_parameters'] == pytest.approx(16e-6)
    assert row['video_parameters'] == pytest.approx(1e-6)
    assert row['score_gflops'] == pytest.approx(2 * 2 / 1e9)  # an inner product of two numbers
    assert row['batch'] == 2 and row['epoch_seconds'] == row['step_seconds'] > 0
    assert '| `c` | ' in printed and 'M parameters' in printed


def test_bad_input(tool, tmp_path, monkeypatch):
    (tmp_path / 'c.py').write_text(toy.RETRIEVER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'argv', ['cost.py', 'c.py'])
    with pytest.raises(SystemExit, match='c.py has no train_dataloader'):
        tool['main']()
    monkeypatch.setattr(sys, 'argv', ['cost.py', 'c.py', '--steps', '0'])
    with pytest.raises(SystemExit):
        tool['main']()
