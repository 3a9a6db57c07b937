"""A checkpoint that an older commit wrote is the same model today: same keys, same scores."""

import json
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvtr.apis import load_retriever
from mmvtr.storage.weights import read_checkpoint

#: Weights of DVTR on a tiny CLIP2Video by 2983d43, and the matrices that it computed from them.
CHECKPOINT = Path(__file__).parent / 'checkpoints/dvtr_2983d43.pth'
MATRICES = json.loads(CHECKPOINT.with_suffix('.json').read_text())


def ramp(*shape):
    return (torch.arange(torch.Size(shape).numel()) % 251).float().view(*shape)


@pytest.fixture(scope='module')
def model():
    saved = read_checkpoint(str(CHECKPOINT))
    cfg = Config.fromstring(saved['meta']['cfg'], '.py')
    return load_retriever(cfg, str(CHECKPOINT), device='cpu')[0]


@torch.no_grad()
def test_scores(model):
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]], dtype=torch.bool)
    inputs = dict(
        video=ramp(3, 4, 3, 32, 32).sin(),
        frame_mask=mask,
        text=ramp(5, 6).long() * 7 % 60 + 1,
        text_mask=torch.ones(5, 6, dtype=torch.bool),
    )
    matrices = model.score(model.encode_text(inputs), model.encode_video(inputs))
    assert matrices.keys() == MATRICES.keys() == {'global', 'aligned', 'scores', 'eta'}
    for name, expected in MATRICES.items():
        expected = torch.tensor(expected)
        assert expected.shape == (5, 3) and expected.std() > 0.01
        torch.testing.assert_close(matrices[name], expected, atol=1e-6, rtol=0)


def test_keys_and_shapes(model):
    saved = read_checkpoint(str(CHECKPOINT))['state_dict']
    today = model.state_dict()
    assert saved.keys() == today.keys() and len(saved) > 100
    for name, value in saved.items():
        assert (value.shape, value.dtype) == (today[name].shape, today[name].dtype), name


def test_it_is_small():
    assert CHECKPOINT.stat().st_size < 200e3
