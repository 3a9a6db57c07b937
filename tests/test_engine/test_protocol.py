"""What the protocol line says of a training and of a model."""

from types import SimpleNamespace

import pytest
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.runner import EpochBasedTrainLoop
from torch import nn
from torch.optim import SGD

from mmvtr.engine.loop.protocol import (
    checkpoint_in_words,
    frames_from,
    models_in_words,
    optimizer_in_words,
    precision,
    precision_of_training,
    selection,
    training_protocol,
)


def test_the_training():
    dataset = dict(type='x', epoch_unit='video_with_all_texts')
    optimizer = dict(type='mmvtr.BertAdam', lr=3e-4)
    cfg = dict(train_dataloader=dict(batch_size=32, dataset=dataset))
    runner = SimpleNamespace(cfg=cfg)
    said = dict(epoch='every video with all texts', batch='32', optimizer=None)
    assert training_protocol(runner) == {**said, 'trained on': None}
    cfg['optim_wrapper'] = dict(optimizer=optimizer)
    assert training_protocol(runner)['optimizer'] == 'BertAdam, lr 0.0003'
    like = dict(type='RemoveByLength', test=dict(type='y'), alpha=5)
    dataset['records'] = dict(environments=dict(type='RemoveRandom', like=like))
    expected = 'RemoveRandom(like=RemoveByLength(alpha=5) with test statistics)'
    assert training_protocol(runner)['trained on'] == expected
    assert training_protocol(SimpleNamespace(cfg={})) == {}


@pytest.mark.parametrize(
    ('wrapper', 'expected'),
    [
        (None, None),
        (dict(optimizer=dict(type='AdamW')), 'AdamW'),
        (dict(optimizer=dict(type='SGD', lr=0.1)), 'SGD, lr 0.1'),
        (dict(a=dict(optimizer=dict(type='SGD'))), None),  # several
    ],
)
def test_the_optimizer(wrapper, expected):
    assert optimizer_in_words(dict(optim_wrapper=wrapper)) == expected


@pytest.mark.parametrize(
    ('wrapper', 'expected'),
    [
        (None, 'fp32'),
        (dict(type='OptimWrapper', dtype='bfloat16'), 'fp32'),
        (dict(type='mmvtr.AutocastOptimWrapper'), 'bf16'),
        (dict(type='AmpOptimWrapper'), 'fp16'),
        (dict(type='AmpOptimWrapper', dtype='bfloat16'), 'bf16'),
        (dict(type='AmpOptimWrapper', dtype='torch.float16'), 'fp16'),
    ],
)
def test_the_precision_of_a_training(wrapper, expected):
    assert precision_of_training(dict(optim_wrapper=wrapper)) == expected


def test_the_precision_of_a_result():
    cfg = dict(optim_wrapper=dict(type='mmvtr.AutocastOptimWrapper'))
    tested = SimpleNamespace(cfg=cfg, optim_wrapper=cfg['optim_wrapper'])
    assert precision(tested, amp=False) == 'fp32' and precision(tested, amp=True) == 'bf16'
    trained = OptimWrapper(SGD(nn.Linear(1, 1).parameters(), lr=1.0))
    trained = SimpleNamespace(cfg=cfg, optim_wrapper=trained)
    assert precision(trained, amp=False) == 'fp32, trained in bf16'
    assert precision(trained, amp=True) == 'bf16'


@pytest.mark.parametrize(
    ('steps', 'expected'),
    [
        ([dict(type='mmvtr.LoadVideo'), dict(type='CentreCrop')], 'video'),
        ([dict(type='LoadFrames')], 'JPEG'),
        ([dict(type='LoadFeatures')], 'features'),
        ([dict(type='LoadExperts')], 'features of experts'),
        ([dict(type='my.Own')], 'my.Own'),
        ([], None),
    ],
)
def test_where_frames_are_from(steps, expected):
    assert frames_from(dict(dataset=dict(video_pipeline=steps))) == expected
    assert frames_from(None) is None and frames_from(dict(dataset={})) is None


def test_how_many_models():
    several = nn.Module()
    several.members = nn.ModuleList([nn.Linear(1, 1)] * 2)
    assert models_in_words(nn.Linear(1, 1), None) == 'single'
    assert models_in_words(several, None) == 'single, 2 members'
    assert models_in_words(several, ['a.pth', 'b.pth']) == 'ensemble of 2'


def told(loop=None, **info):
    return SimpleNamespace(message_hub=SimpleNamespace(get_info=info.get), _train_loop=loop)


def test_the_checkpoint():
    chosen = dict(chosen_on='val', chosen_by='retrieval/rsum')
    assert checkpoint_in_words(told(**chosen)) == 'chosen on val by retrieval/rsum'
    assert checkpoint_in_words(told(chosen_on='test')) == 'chosen on test'  # of an older version
    assert checkpoint_in_words(told(zero_shot='as built')) is None
    assert checkpoint_in_words(told()) == checkpoint_in_words(told({})) == 'as given'
    loop = EpochBasedTrainLoop.__new__(EpochBasedTrainLoop)
    loop._epoch = 5
    assert checkpoint_in_words(told(loop)) == 'epoch 5'


def test_what_a_training_will_choose():
    hooks = dict(checkpoint=dict(save_best='retrieval/rsum'))
    cfg = Config(dict(default_hooks=hooks))
    assert selection(cfg) == 'the last epoch'
    cfg.val_dataloader = dict(batch_size=2)
    assert selection(cfg) == 'best on val by retrieval/rsum'
    cfg.default_hooks.checkpoint.save_best = None
    assert selection(cfg) == 'the last epoch'
