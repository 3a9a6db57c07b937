"""projects/lab/cost.py: FLOPs counted by hand, parameters like those of the built model."""

import json
import runpy
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import toy  # noqa: F401 - registers the towers
from children import ROOT
from mmvtr.apis import load_retriever
from mmvtr.models.towers import OpenCLIPText
from mmvtr.registry import MODELS
from mmvtr.utils import forget_pretrained, load_config

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
    return runpy.run_path(str(ROOT / 'projects/lab/cost.py'))


def test_flops_by_hand(tool):
    flops, made = tool['counted'](lambda: nn.Linear(5, 7)(torch.ones(3, 5)))
    assert flops == 2 * 3 * 5 * 7 and made.shape == (3, 7)
    lstm, x = nn.LSTM(4, 6, batch_first=True), torch.ones(2, 3, 4)
    with torch.backends.mkldnn.flags(enabled=False):
        flops, _ = tool['counted'](lambda: lstm(x))
    assert flops == 2 * 2 * 3 * (4 * 6 * 4 + 4 * 6 * 6)  # four gates, for input and state


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
    # Words: 8 with 2 numbers each; frames: one scale.
    assert row['text_parameters'] == pytest.approx(16e-6)
    assert row['video_parameters'] == pytest.approx(1e-6)
    assert row['score_gflops'] == pytest.approx(2 * 2 / 1e9)  # an inner product of two numbers
    assert row['batch'] == 2 and row['epoch_seconds'] == row['step_seconds'] > 0
    assert '| `c` | ' in printed and 'M parameters' in printed


#: A CLIP with one layer, as wide as that of the configs.
CLIP = dict(
    embed_dim=512,
    vision_cfg=dict(image_size=224, layers=1, width=64, patch_size=112),
    text_cfg=dict(context_length=77, vocab_size=49408, width=64, heads=2, layers=1),
)


def small(config):
    """Return a config with a small CLIP, in batches of two."""
    cfg = load_config(config, {'train_dataloader.batch_size': 2})
    for tower in (cfg.model.get('encoder') or {}).values():
        if isinstance(tower, dict) and tower.get('type', '').startswith('OpenCLIP'):
            tower.model = CLIP
    return cfg


@pytest.mark.parametrize(
    'config',
    [
        'dvtr_c2v_msvd',
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ('uatvr_vitb16_msrvtt_ti', 'ncl_clip4clip_activitynet', 'hgr_youcook2')
        ),
    ],
)
def test_parameters_are_those_of_the_built_model(tool, config):
    """Towers are measured separately, without stand-ins; the word table is the config's."""
    row = tool['measure'](small(config), SimpleNamespace(steps=1, device='cpu', no_towers=False))
    cfg = small(config)
    forget_pretrained(cfg.model)
    with torch.device('meta'):
        model = MODELS.build(cfg.model)
    count = {name: p.numel() for name, p in model.named_parameters()}
    total = sum(count.values()) / 1e6
    assert row.get('all_parameters', row['parameters']) == pytest.approx(total, abs=1e-9)
    if 'hgr' not in config:
        towers = ('encoder.frames.', 'encoder.text.')
        outside = sum(n for name, n in count.items() if not name.startswith(towers)) / 1e6
        assert row['parameters'] == pytest.approx(outside, abs=1e-9)
        assert row['tower_gflops'] > 0


@pytest.mark.parametrize('extra', [{}, dict(no_causal_mask=True, pool_type='last')])
def test_a_text_for_any_tower(tool, extra):
    tower = OpenCLIPText({**CLIP, 'text_cfg': {**CLIP['text_cfg'], **extra}})
    length = 77 if extra else 32
    ids = tool['full_text'](tower, [dict(type='CLIPTokenize', context_length=length)])
    tokens, pooled = tower(ids, ids > 0)
    assert tokens.shape == (1, length, 512) and pooled.isfinite().all()


def test_flops_without_stand_ins(tool):
    stand_in = MODELS.build(dict(type='mmvtr.SimulatedFrames', dim=5, trained=True))
    model = nn.Sequential(stand_in, nn.Linear(5, 7))
    x = torch.ones(3, 5)
    assert tool['counted'](lambda: model(x), model)[0] == 2 * 3 * 5 * 7
    assert tool['counted'](lambda: model(x))[0] == 2 * 3 * 5 * 7 + 2 * 3 * 5 * 5
    sizes = tool['sizes_of'](model, None)
    assert sum(sizes.values()) == 5 * 7 + 7


def test_bad_input(tool, tmp_path, monkeypatch):
    (tmp_path / 'c.py').write_text(toy.RETRIEVER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'argv', ['cost.py', 'c.py'])
    with pytest.raises(SystemExit, match='c.py has no train_dataloader'):
        tool['main']()
    monkeypatch.setattr(sys, 'argv', ['cost.py', 'c.py', '--steps', '0'])
    with pytest.raises(SystemExit):
        tool['main']()
