"""Weights of a file are those of the model: names behind wrappers, containers, finite numbers."""

import pytest
import torch
from torch import nn

from mmvtr.storage import write_tensors
from mmvtr.storage.weights import check_weights, read_checkpoint, wrapper_before


class Model(nn.Module):
    """Has a part that is called as a wrapper calls its model."""

    def __init__(self):
        super().__init__()
        self.model = nn.Linear(2, 3)
        self.head = nn.Linear(3, 1)
        self.register_buffer('step', torch.tensor(3))


def behind(start, weights):
    return {start + name: x for name, x in weights.items()}


@pytest.fixture
def weights():
    torch.manual_seed(4)
    return {name: x.clone() for name, x in Model().state_dict().items()}


@pytest.mark.parametrize(
    'start',
    ['', 'module.', '_orig_mod.', 'model.', '0.auto_model.', 'module._orig_mod.', 'model.module.'],
)
def test_names_behind_wrappers(weights, start, monkeypatch):
    said = []
    monkeypatch.setattr('mmvtr.storage.weights.print_log', lambda text, *_: said.append(text))
    found = check_weights(Model(), behind(start, weights), f'{start or "bare"}.pth')
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], x) for name, x in weights.items())
    assert len(said) == bool(start) and all(f"names begin with '{start}'" in s for s in said)


@pytest.mark.parametrize(
    'change',
    [
        lambda w: w | behind('module.', w),
        lambda w: behind('_orig_mod.', w) | behind('module.', w),
        lambda w: {**behind('module.', {'head.bias': w.pop('head.bias')}), **w},
    ],
)
def test_names_behind_several_wrappers_are_refused(weights, change):
    with pytest.raises(RuntimeError, match='a.pth: .* behind different wrappers'):
        check_weights(Model(), change(weights), 'a.pth')


def test_what_stays_beside_a_wrapper_is_unexpected(weights):
    averaged = behind('module.', weights) | {'n_averaged': torch.tensor(3)}
    with pytest.raises(RuntimeError, match=r'unexpected \(1\): n_averaged'):
        check_weights(Model(), averaged, 'a.pth')
    assert wrapper_before(['module.x'], {'y'}.__contains__, 'a.pth') == ''


@pytest.mark.parametrize('container', ['state_dict', 'model', None])
def test_containers(weights, container, tmp_path):
    content = {container: behind('module.', weights), 'epoch': 3} if container else weights
    torch.save(content, tmp_path / 'a.pth')
    read = read_checkpoint(tmp_path / 'a.pth')
    assert read.get('epoch') == (3 if container else None)
    found = check_weights(Model(), read['state_dict'], 'a.pth')
    assert torch.equal(found['head.weight'], weights['head.weight'])


def test_two_containers_are_refused(weights, tmp_path):
    torch.save(dict(model=weights, state_dict=weights), tmp_path / 'a.pth')
    with pytest.raises(RuntimeError, match="a.pth holds weights under 'state_dict' and under"):
        read_checkpoint(tmp_path / 'a.pth')


@pytest.mark.parametrize(
    'names, value',
    [
        (['head.bias'], float('nan')),
        (['model.weight'], float('inf')),
        (['head.weight', 'head.bias', 'model.weight', 'model.bias'], float('nan')),
    ],
)
def test_numbers_that_are_none(weights, names, value, tmp_path):
    for name in names:
        weights[name].view(-1)[-1] = value
    write_tensors(weights, tmp_path / 'a.safetensors')
    read = read_checkpoint(tmp_path / 'a.safetensors')['state_dict']
    with pytest.raises(
        RuntimeError, match=f'a.safetensors: {len(names)} of its 5 .*not finite'
    ) as e:
        check_weights(Model(), read, tmp_path / 'a.safetensors')
    assert any(name in str(e.value) for name in names)
    others = [name for name in weights if name not in names and name != 'step']
    if others:  # a part is looked at alone
        check_weights(Model(), read, 'a.safetensors', others)
