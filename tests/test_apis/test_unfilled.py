"""A model that is loaded draws no weights first, and is the one of its checkpoint bit for bit."""

import pytest
import torch
from mmengine.config import Config
from torch import nn

from mmvtr.apis import load_retriever
from mmvtr.apis.loading import Unfilled
from mmvtr.registry import MODELS
from mmvtr.storage import write_plain
from mmvtr.storage.weights import refuse_not_finite

CLIP = dict(
    embed_dim=16,
    quick_gelu=True,
    vision_cfg=dict(image_size=16, layers=2, width=64, patch_size=8),
    text_cfg=dict(context_length=12, vocab_size=50, width=64, heads=1, layers=2),
)
TOWERS = [
    dict(type='OpenCLIPFrames', model=CLIP),
    dict(type='OpenCLIPText', model=CLIP),
]


def weights_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.mark.parametrize('tower', TOWERS, ids=lambda tower: tower['type'])
def test_all_weights_of_a_checkpoint_bit_for_bit(tower):
    expected = weights_of(MODELS.build(tower))
    with Unfilled():
        model = MODELS.build(tower)
    for value in model.parameters():  # whatever was there is written over
        value.data.fill_(float('nan'))
    model.load_state_dict(expected)
    found = weights_of(model)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_parameters_alone_are_left_as_they_are():
    layer = nn.Linear(3, 3)
    drawn, buffer = weights_of(layer)['weight'], torch.zeros(5)
    with Unfilled():
        nn.init.kaiming_uniform_(layer.weight)
        nn.init.xavier_normal_(layer.weight)
        layer.weight.data.add_(0)
        nn.init.normal_(buffer)
        norm, drawn_buffer = nn.LayerNorm(3), torch.rand(5)
    assert torch.equal(layer.weight, drawn) and buffer.any() and drawn_buffer.any()
    assert norm.weight.eq(1).all() and norm.bias.eq(0).all()
    nn.init.xavier_normal_(layer.weight)
    assert not torch.equal(layer.weight, drawn)


def test_nothing_is_drawn_for_a_checkpoint(tmp_path, monkeypatch):
    import toy

    (tmp_path / 'config.py').write_text(toy.RETRIEVER)
    monkeypatch.chdir(tmp_path)
    expected, cfg = load_retriever('config.py', None, random_weights=True, device='cpu')
    write_plain(dict(state_dict=expected.state_dict()), 'bare.pth')
    active = []
    build = MODELS.build

    def seen(*args, **kwargs):
        active.append(torch.overrides._get_current_function_mode() is not None)
        return build(*args, **kwargs)

    monkeypatch.setattr(MODELS, 'build', seen)
    for source in ('config.py', Config.fromfile('config.py')):
        model, _ = load_retriever(source, 'bare.pth', device='cpu')
        for name, value in expected.state_dict().items():
            assert torch.equal(model.state_dict()[name], value), name
    assert active[0] and torch.overrides._get_current_function_mode() is None
    del active[:]
    load_retriever('config.py', None, random_weights=True, device='cpu')
    assert not active[0]


def test_large_finite_weights_pass():
    """Their sum is infinite."""
    refuse_not_finite(dict(x=torch.full((9,), 3e38)), 'x')
    for wrong in ('nan', 'inf', '-inf'):
        values = torch.ones(9)
        values[4] = float(wrong)
        with pytest.raises(RuntimeError, match='not finite'):
            refuse_not_finite(dict(x=torch.ones(3), y=values), 'x')
    opposite = torch.tensor([float('inf'), float('-inf')])
    with pytest.raises(RuntimeError, match='not finite'):
        refuse_not_finite(dict(x=opposite), 'x')
