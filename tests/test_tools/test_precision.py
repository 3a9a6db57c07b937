"""--amp of train.py, test.py and study.py: which precision, by which wrapper."""

import runpy
import sys

import pytest
import torch
from mmengine.config import Config

from children import tool_file
from mmvtr.engine.training import use_amp
from mmvtr.errors import UserError


def config(**wrapper):
    return Config(dict(optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1), **wrapper)))


@pytest.mark.parametrize('tool', ['train', 'test', 'study'])
@pytest.mark.parametrize(
    ('words', 'precision'), [([], None), (['--amp'], 'bf16'), (['--amp', 'fp16'], 'fp16')]
)
def test_what_is_typed(tool, words, precision, monkeypatch):
    read = runpy.run_path(str(tool_file(f'{tool}.py')))['parse_args']
    monkeypatch.setattr(sys, 'argv', [f'{tool}.py', 'c.py', *words, '--cfg-options', 'a=1'])
    assert read().amp == precision
    monkeypatch.setattr(sys, 'argv', [f'{tool}.py', 'c.py', '--amp', 'fp8'])
    with pytest.raises(SystemExit):
        read()


WRAPPERS = [
    {},
    dict(type='OptimWrapper', clip_grad=dict(max_norm=1.0)),
    dict(type='mmvtr.AutocastOptimWrapper', dtype='bfloat16', accumulative_counts=2),
    dict(type='AmpOptimWrapper', loss_scale=512.0),
]


@pytest.mark.parametrize('wrapper', WRAPPERS)
def test_each_wrapper_in_each_precision(wrapper, monkeypatch):
    cfg = config(**wrapper)
    use_amp(cfg, 'bf16')
    kept = {k: v for k, v in wrapper.items() if k not in ('type', 'dtype', 'loss_scale')}
    own = dict(optimizer=dict(type='SGD', lr=0.1), **kept)
    assert cfg.optim_wrapper == dict(type='mmvtr.AutocastOptimWrapper', **own)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    use_amp(cfg, 'fp16')
    scaled = dict(type='AmpOptimWrapper', dtype='float16', loss_scale='dynamic')
    assert cfg.optim_wrapper == dict(**scaled, **own)


def test_float16_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    with pytest.raises(UserError, match='fp16 trains with loss scaling, which needs a GPU.*bf16'):
        use_amp(config(), 'fp16')
    with pytest.raises(UserError, match="optim_wrapper.type='OptimWrapperDict'"):
        use_amp(config(type='OptimWrapperDict'), 'bf16')
