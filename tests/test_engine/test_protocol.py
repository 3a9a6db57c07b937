"""What the protocol line says of a test and of a model."""

from types import SimpleNamespace

import pytest
from mmengine.runner import EpochBasedTrainLoop
from torch import nn

from mmvtr.engine.loops.protocol import (
    checkpoint_in_words,
    frames_from,
    models_in_words,
    precision,
)


def test_the_precision_of_a_result():
    assert precision(False, None) == precision(False, 'fp32') == 'fp32'
    assert precision(True, None) == precision('bf16', 'bf16') == 'bf16'
    assert precision(False, 'bf16') == 'fp32, trained in bf16'
    assert precision('fp16', 'fp32') == 'fp16, trained in fp32'


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
    assert checkpoint_in_words(told(chosen_on='test')) == 'chosen on test'  # by metrics that differ
    assert checkpoint_in_words(told(zero_shot='as built')) is None
    assert checkpoint_in_words(told()) == checkpoint_in_words(told({})) == 'as given'
    loop = EpochBasedTrainLoop.__new__(EpochBasedTrainLoop)
    loop._epoch = 5
    assert checkpoint_in_words(told(loop)) == 'epoch 5'
