"""What is refused before a training: a batch or a length that its schedule is not for."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import PARAM_SCHEDULERS

from mmvtr.engine.checks import schedule_checks
from mmvtr.engine.checks.schedule_checks import (
    check_joint_batch,
    check_warmup,
    fit_warmup,
    linear_rule,
)
from mmvtr.errors import UserError


def config(batch=4, base=8, counts=1, **rule):
    return Config(
        dict(
            train_dataloader=dict(batch_size=batch),
            optim_wrapper=dict(accumulative_counts=counts),
            auto_scale_lr=dict(base_batch_size=base, **rule),
        )
    )


@pytest.fixture
def processes(monkeypatch):
    return lambda count: monkeypatch.setattr(schedule_checks, 'get_world_size', lambda: count)


@pytest.mark.parametrize(('world', 'batch', 'counts'), [(1, 8, 1), (2, 4, 1), (2, 2, 2), (8, 1, 1)])
def test_the_batch_that_the_rate_is_for(processes, world, batch, counts):
    processes(world)
    check_joint_batch(config(batch, counts=counts))


def test_another_batch_is_refused_with_both_numbers(processes):
    processes(8)
    with pytest.raises(UserError) as refused:
        check_joint_batch(config(128, base=128))
    said = str(refused.value)
    assert '8 processes x train_dataloader.batch_size 128 = 1024 items' in said
    assert 'is for 128' in said
    for way in (
        'train_dataloader.batch_size=16 ',
        '--auto-scale-lr   (the learning rate times 8)',
        'auto_scale_lr.base_batch_size=1024 ',
    ):
        assert way in said


def test_what_cannot_be_shared_evenly_is_not_advised(processes):
    processes(3)
    with pytest.raises(UserError, match='times 1.5') as refused:
        check_joint_batch(config(4, base=8))
    assert 'train_dataloader.batch_size=' not in str(refused.value)


def test_accumulated_batches_count(processes):
    processes(2)
    with pytest.raises(UserError, match=r'batch_size 4 x accumulative_counts 3 = 24 items'):
        check_joint_batch(config(4, base=8, counts=3))
    # mmengine compares 2 x 4 with the base: 24 / 8 as 8 / (8 / 3).
    assert linear_rule(config(4, base=8, counts=3, enable=True)) == dict(
        base_batch_size=8 / 3, enable=True
    )


def test_silent_where_nothing_is_stated_or_the_rate_is_scaled(processes):
    processes(2)
    check_joint_batch(Config(dict(train_dataloader=dict(batch_size=3))))
    check_joint_batch(config(3, enable=True))
    assert linear_rule(Config(dict(optim_wrapper={}))) is None


LINEAR = dict(type='LinearLR', end=2, convert_to_iter_based=True)
COSINE = dict(type='CosineAnnealingLR', begin=2, convert_to_iter_based=True)


def of_epochs(epochs, *schedulers):
    return Config(dict(train_cfg=dict(max_epochs=epochs), param_scheduler=list(schedulers)))


@pytest.mark.parametrize('epochs', [1, 2])
def test_a_training_no_longer_than_its_warmup(epochs):
    with pytest.raises(UserError) as refused:
        check_warmup(of_epochs(epochs, LINEAR, COSINE))
    said = str(refused.value)
    assert 'at epoch 2 the warm-up, LinearLR (param_scheduler.0) ends' in said
    assert 'CosineAnnealingLR (param_scheduler.1) begins' in said
    assert f'train_cfg.max_epochs is {epochs}.' in said
    share = epochs / 10
    assert f'param_scheduler.0.end={share:g} param_scheduler.1.begin={share:g}' in said
    for scheduler, key in ((LINEAR, 'end'), (COSINE, 'begin')):
        scheduler = dict(scheduler, **{key: share})
        check_warmup(of_epochs(epochs, scheduler))


def test_what_fits_is_let_through():
    check_warmup(of_epochs(3, LINEAR, COSINE))
    check_warmup(of_epochs(1, LINEAR))  # a warm-up alone just does not come to its end
    check_warmup(of_epochs(1, dict(type='WarmupCosineLR', by_epoch=False)))
    check_warmup(of_epochs(1, dict(type='StepLR', by_epoch=False, begin=100)))
    check_warmup(Config(dict(train_cfg=dict(max_epochs=1), param_scheduler=None)))
    check_warmup(Config(dict(train_cfg=dict(max_iters=10), param_scheduler=COSINE)))


PLANTED = sorted((Path(__file__).parents[2] / 'configs').glob('*planted*.py'))


@pytest.mark.parametrize('epochs', [1, 2])
@pytest.mark.parametrize('path', PLANTED, ids=lambda path: path.stem)
def test_every_planted_config_can_train_for_an_epoch(path, epochs):
    """The rate goes up to the config's own and comes down; so it does in one of 19 steps.

    A warm-up that is a share of the run has no step at the full rate where there are but two.
    """
    cfg = Config.fromfile(path)
    cfg.train_cfg.max_epochs = epochs
    check_warmup(cfg)
    share = any('Warmup' in scheduler.type for scheduler in cfg.param_scheduler)
    for steps in (19,) if share else (19, 2, 1):
        rates = rates_of(cfg, epochs, steps)
        assert len(rates) == epochs * steps
        assert max(rates) <= 1 + 1e-6
        assert max(rates) > 0.9
    assert 0 < rates_of(cfg, epochs, 19)[-1] < 0.2


def rates_of(cfg, epochs, steps):
    """The learning rate of each step, as a share of the config's own."""
    weight = torch.nn.Parameter(torch.zeros(1))
    wrapper = OptimWrapper(torch.optim.SGD([weight], lr=1.0))
    given, said = fit_warmup(cfg.param_scheduler, epochs=epochs, steps=steps)
    assert bool(said) == (given != list(cfg.param_scheduler))
    schedulers = []
    for scheduler in given:
        own = dict(scheduler, optimizer=wrapper, epoch_length=steps)
        own.setdefault('end', epochs if own.get('by_epoch', True) else epochs * steps)
        schedulers.append(PARAM_SCHEDULERS.build(own))
    rates = []
    for _ in range(epochs * steps):
        rates += wrapper.get_lr()['lr']
        wrapper.step()
        for scheduler in schedulers:
            scheduler.step()
    return rates


def test_a_warmup_that_fits_is_left_alone():
    given = [LINEAR, COSINE]
    assert fit_warmup(given, epochs=3, steps=5) == (given, '')
    assert fit_warmup(COSINE | dict(begin=0), epochs=1, steps=5)[1] == ''
    fitted, said = fit_warmup(given, epochs=2, steps=50)
    assert said == 'the warm-up of 2 epochs does not fit into 2: it takes 10 of the 100 steps'
    assert [(s['begin'], s['end']) for s in fitted] == [(0, 10), (10, 100)]
