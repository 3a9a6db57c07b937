"""MatrixDecayConstructor: what decays, at which rate, and keys that fit nothing."""

import pytest
import torch
from mmengine.model import BaseModel
from mmengine.optim import OptimWrapper, build_optim_wrapper
from torch import nn

import toy
from children import run_tool
from mmvtr.engine.optim_wrappers import check_custom_keys, decays
from mmvtr.engine.runner import groups_in_words


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.norm = nn.LayerNorm(2)
        self.position = nn.Embedding(5, 2)
        self.words = nn.Embedding(5, 2)
        self.class_embedding = nn.Parameter(torch.zeros(1, 1, 2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.old, self.new = Part(), Part()
        self.same = self.old.linear  # shared: one parameter, not two
        self.scale = nn.Parameter(torch.zeros(()))
        self.frozen = nn.Parameter(torch.zeros(2, 2), requires_grad=False)


def build(model, optimizer=None, **paramwise):
    cfg = dict(
        constructor='mmvtr.MatrixDecayConstructor',
        optimizer=optimizer or dict(type='AdamW', lr=0.1, weight_decay=0.5),
    )
    if paramwise:
        cfg['paramwise_cfg'] = paramwise
    return build_optim_wrapper(model, cfg).optimizer


def settings(model, optimizer):
    """(lr, weight_decay) by name of a parameter."""
    of = {id(p): g for g in optimizer.param_groups for p in g['params']}
    return {
        name: (of[id(p)]['lr'], of[id(p)]['weight_decay'])
        for name, p in model.named_parameters()
        if id(p) in of
    }


def test_only_matrices_decay():
    model = Model()
    optimizer = build(model)
    assert len(optimizer.param_groups) == 2
    found = settings(model, optimizer)
    assert found.keys() == dict(model.named_parameters()).keys() - {'frozen'}
    matrices = {f'{part}.{name}.weight' for part in ('old', 'new') for name in ('linear', 'words')}
    assert {name for name, (_, decay) in found.items() if decay} == matrices
    assert set(found.values()) == {(0.1, 0.5), (0.1, 0.0)}


def test_keys_multiply_and_the_longest_wins():
    model = Model()
    keys = {
        'old': dict(lr_mult=0.1, decay_mult=0.5),
        'old.linear': dict(lr_mult=2.0),
        'scale': dict(lr_mult=0.0, decay_mult=3.0),
    }
    found = settings(model, build(model, custom_keys=keys))
    assert found['old.words.weight'] == pytest.approx((0.01, 0.25))
    # decay_mult leaves it out no less
    assert found['old.norm.weight'] == pytest.approx((0.01, 0.0))
    assert found['old.linear.weight'] == pytest.approx((0.2, 0.5))
    assert found['old.linear.bias'] == pytest.approx((0.2, 0.0))
    assert found['new.linear.weight'] == pytest.approx((0.1, 0.5))
    assert found['scale'] == (0.0, 0.0)


def test_of_equally_long_keys_the_first_by_alphabet_wins():
    model = Model()
    keys = {'words.': dict(lr_mult=3.0), 'weight': dict(lr_mult=2.0)}
    found = settings(model, build(model, custom_keys=keys))
    assert found['new.words.weight'][0] == pytest.approx(0.2)


def test_what_the_log_says_of_groups_is_of_the_optimizers_own():
    """Not of the group that mmengine's wrapper makes where there are several."""
    model = Model()
    optimizer = build(model)
    said = groups_in_words(OptimWrapper(optimizer))
    assert [line.partition(':')[2] for line in said] == [
        ' lr 0.1, weight_decay 0', ' lr 0.1, weight_decay 0.5'
    ]  # fmt: skip
    counts = [int(line.split()[0]) for line in said]
    assert sum(counts) == len(settings(model, optimizer)) and counts[1] == 4


def test_a_step_leaves_the_spared_where_they_are():
    model = Model()
    optimizer = build(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, p in model.named_parameters():
        shrinks = name.endswith(('linear.weight', 'words.weight'))
        torch.testing.assert_close(p, before[name] * (0.95 if shrinks else 1.0))


def test_an_optimizer_without_decay_has_one_group():
    model = Model()
    optimizer = build(model, dict(type='Adam', lr=0.1))
    assert [g['weight_decay'] for g in optimizer.param_groups] == [0]
    assert len(optimizer.param_groups[0]['params']) == len(list(model.parameters())) - 1


def test_the_default_of_an_optimizer_is_for_matrices_alone_too():
    model = Model()
    found = settings(model, build(model, dict(type='mmvtr.BertAdam', lr=0.1)))
    assert found['old.linear.weight'] == (0.1, 0.01) and found['old.linear.bias'] == (0.1, 0.0)
    optimizer = build(model, dict(type='Adam'), custom_keys={'old': dict(lr_mult=0.5)})
    assert settings(model, optimizer)['old.linear.bias'][0] == pytest.approx(5e-4)
    build(model, dict(type='LBFGS'))  # has one group of one rate, and no decay


def test_a_wrapped_model_is_unwrapped():
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    model = Model()
    found = settings(model, build(Wrapper(model), custom_keys={'old': dict(lr_mult=0.5)}))
    assert found['old.norm.bias'][0] == pytest.approx(0.05)


def test_a_key_that_fits_nothing_is_an_error():
    keys = {'encoder.frames': dict(lr_mult=0.1), 'old': dict(lr_mult=0.1)}
    with pytest.raises(ValueError, match=r"no parameter of the model has 'encoder.frames'"):
        check_custom_keys(dict(custom_keys=keys), Model())
    frozen = {'frozen': dict(lr_mult=0.1)}  # what is frozen is still there
    check_custom_keys(dict(custom_keys=frozen), Model())


def test_a_key_of_a_part_that_may_be_left_out_is_none():
    """The retriever needs an encoder; heads and a supervision it may lack."""

    class Retriever(BaseModel):
        def __init__(self, *, encoder, heads=None):
            super().__init__()
            self.encoder = encoder

        def forward(self, inputs):
            return inputs

    model = Retriever(encoder=Model())
    check_custom_keys(dict(custom_keys={'encoder.old': {}, 'heads.text': {}}), model)
    with pytest.raises(ValueError, match=r"no parameter of the model has 'encoder.tower'"):
        check_custom_keys(dict(custom_keys={'encoder.tower': {}}), model)


@pytest.mark.parametrize(
    ('paramwise', 'message'),
    [
        (dict(norm_decay_mult=0.0), r"takes \['custom_keys'\], not \['norm_decay_mult'\]"),
        (dict(custom_keys=dict(old=dict(lr=1))), r"custom_keys\['old'\] takes .*, not \['lr'\]"),
    ],
)
def test_other_options_are_refused(paramwise, message):
    with pytest.raises(ValueError, match=message):
        build(Model(), **paramwise)


def test_names_are_parts_of_a_path():
    matrix = nn.Parameter(torch.zeros(2, 2))
    assert decays('encoder.decomposition.weight', matrix)
    assert not decays('members.1.encoder.position.weight', matrix)


def test_a_key_that_fits_nothing_is_an_error_of_every_constructor(tmp_path):
    """A part that a config may leave out can be named nevertheless."""
    toy.write_config(tmp_path)
    key = 'optim_wrapper.paramwise_cfg.custom_keys'
    for name, code in (('encoder.frame.', 1), ('data_preprocessor', 0)):
        words = (
            '--cfg-options',
            f"{key}={{'{name}': {{'lr_mult': 0.1}}}}",
            'train_cfg.max_epochs=1',
        )
        ended, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', *words, '--work-dir', name)
        said = f"custom_keys: no parameter of the model has '{name}' in its name"
        assert (ended, said in ' '.join(printed.split())) == (code, bool(code)), printed[-2000:]
