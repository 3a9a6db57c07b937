"""Memory and FLOPs of a step, compared with counts by hand."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config, ConfigDict
from torch import nn

from children import ROOT
from mmvtr.utils import load_config, register_all_modules
from simulation.footprint import FEW, Growth, Kept, behind_towers, towers_of, uncounted

CLIP = dict(
    embed_dim=16,
    vision_cfg=dict(layers=4, width=32, head_width=8, patch_size=16, image_size=64),
    text_cfg=dict(context_length=32, vocab_size=49408, width=16, heads=2, layers=1),
)


def test_what_is_kept_by_hand():
    linear, x = nn.Linear(3, 7), torch.ones(5, 3)
    with Kept(linear) as kept:
        linear(x).relu()
    assert kept.bytes == 4 * (5 * 3 + 5 * 7)  # the input, what relu gave; not the weight
    with Kept(linear) as kept, torch.no_grad():
        linear(x).relu()
    assert kept.bytes == 0
    with Kept(linear) as kept:
        x.requires_grad_() * 2 + x.exp() + x.exp()  # two results of exp, each once
    assert kept.bytes == 2 * 4 * 15


@pytest.mark.parametrize(('items', 'pairs'), [(3.0, 2.0), (5.0, 0.0), (0.0, 0.5)])
def test_growth(items, pairs):
    few, twice = (items * n + pairs * n**2 for n in (FEW, 2 * FEW))
    found = Growth.through(few, twice)
    assert found == pytest.approx((items, pairs))
    assert found.of(4, 32) == pytest.approx(4 * items + 128 * pairs)


@pytest.fixture(scope='module')
def config():
    register_all_modules()

    def make(frames=2, **tower):
        towers = {
            'frames': dict(type='OpenCLIPFrames', model=CLIP, **tower),
            'text': dict(type='OpenCLIPText', model=CLIP, frozen=tower.get('frozen', False)),
        }
        steps = dict(
            video_pipeline=[dict(type='LoadVideo', num_frames=frames)],
            text_pipeline=[dict(type='CLIPTokenize', context_length=8)],
        )
        loader = dict(batch_size=4, dataset=steps)
        return Config(dict(model=dict(encoder=towers), train_dataloader=loader))

    return make


def test_towers(config):
    one, two, three = (towers_of(config(n), False)[0] for n in (1, 2, 3))
    assert two.kept - one.kept == three.kept - two.kept > 0  # one more frame
    assert two.flops - one.flops == three.flops - two.flops > 0
    frozen, fixed = towers_of(config(1, frozen=True), False)
    assert frozen.kept == 0 and frozen.flops == pytest.approx(one.flops / 3)
    assert fixed == pytest.approx(towers_of(config(1), False)[1] / 4)  # no gradient, no moments
    spared, _ = towers_of(config(1, grad_checkpointing=True), False)
    assert spared.kept < one.kept and spared.flops > one.flops
    halved, _ = towers_of(config(1), True)
    assert 0.4 * one.kept < halved.kept < 0.9 * one.kept
    nothing = Config(dict(model=dict(encoder=dict(type='x'))))
    assert towers_of(nothing, False) == ((0.0, 0.0), 0.0)


def test_the_weights_of_a_config_stay(config):
    cfg = config(1, pretrained='somewhere.bin')
    towers_of(cfg, False)
    assert cfg.model.encoder.frames.pretrained == 'somewhere.bin'


def test_behind_towers():
    cfg = load_config(str(ROOT / 'configs/ncl_clip4clip_msvd.py'), dict())
    need, trained, steps = behind_towers(cfg)
    assert need.kept.items > 0 and need.flops.items > 0 and trained >= 0
    assert steps == pytest.approx(48_774 / 128, abs=2)
    assert isinstance(cfg, (Config, ConfigDict)) and Path(cfg.filename).name.startswith('ncl')


@pytest.mark.parametrize(
    ('name', 'left'),
    [
        ('dvtr_hit_msrvtt', ['TransformersText']),
        ('mmt_msrvtt', ['TransformersText']),
        ('dvtr_c2v_msrvtt_bert', ['TransformersText']),
        ('dvtr_c2v_msrvtt', []),
        ('causal_hgr_epic', []),
    ],
)
def test_towers_that_are_not_counted(name, left):
    assert uncounted(load_config(str(ROOT / f'configs/{name}.py'))) == left
