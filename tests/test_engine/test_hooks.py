"""Random numbers depend on the step alone; broken videos are counted and named."""

import logging
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from mmvtr.engine.hooks.broken_video_hook import BrokenVideoHook
from mmvtr.engine.hooks.step_hooks import ExactSeedHook, ProgressHook, seed_all


def draw():
    return random.random(), np.random.rand(), torch.rand(1).item()


def test_a_step_draws_the_same_whatever_came_before():
    hook, runner = ExactSeedHook(), SimpleNamespace(seed=5, iter=7)
    hook.before_train_iter(runner, batch_idx=2)
    first = draw()
    hook.before_val_iter(runner, batch_idx=0)
    draw()
    hook.before_train_iter(runner, batch_idx=0)  # the index in the epoch does not matter
    assert draw() == first


def test_steps_seeds_and_points_differ():
    hook, draws = ExactSeedHook(), []
    for seed, step in [(0, 0), (0, 1), (1, 0)]:
        runner = SimpleNamespace(seed=seed, iter=step)
        hook.before_train_epoch(runner)
        draws.append(draw())
        hook.before_train_iter(runner, batch_idx=0)
        draws.append(draw())
    assert len(set(draws)) == len(draws)


def test_evaluation_does_not_depend_on_the_run():
    draws = set()
    for seed, step in [(0, 3), (8, 9)]:
        ExactSeedHook().before_test_iter(SimpleNamespace(seed=seed, iter=step), batch_idx=4)
        draws.add(draw())
    assert len(draws) == 1


def test_seed_all_reads_the_whole_key():
    seed_all(1, 2)
    first = draw()
    seed_all(2, 1)
    assert draw() != first
    seed_all(1, 2)
    assert draw() == first


def batch(num_texts, *broken):
    return dict(data_samples=dict(broken=list(broken), text_idx=torch.arange(num_texts)))


@pytest.fixture
def log(caplog):
    logger = logging.getLogger('test_hooks')
    caplog.set_level(logging.INFO, logger='test_hooks')
    loader = SimpleNamespace(dataset=SimpleNamespace(known_broken={}))
    runner = SimpleNamespace(logger=logger, epoch=0, train_dataloader=loader)
    return SimpleNamespace(runner=runner, caplog=caplog)


def run_epoch(hook, runner, *batches):
    hook.before_train_epoch(runner)
    for i, data_batch in enumerate(batches):
        hook.before_train_iter(runner, batch_idx=i, data_batch=data_batch)
    hook.after_train_epoch(runner)


def test_broken_videos_are_named_once_and_counted(log):
    hook = BrokenVideoHook(max_share=0.5)
    bad = ('video7', 'no video stream')
    run_epoch(hook, log.runner, batch(4), batch(3, bad), batch(3, bad))
    assert log.caplog.text.count('skipped broken video video7: no video stream') == 1
    assert 'epoch 1: 2 of 12 items skipped, 1 broken videos' in log.caplog.text
    log.caplog.clear()
    log.runner.epoch = 1
    run_epoch(hook, log.runner, batch(3, bad))
    assert 'skipped broken video' not in log.caplog.text
    assert 'epoch 2: 1 of 4 items skipped' in log.caplog.text


def test_no_broken_video_no_word(log):
    run_epoch(BrokenVideoHook(), log.runner, batch(4))
    assert log.caplog.text == ''


def test_too_many_broken_videos_end_the_training(log):
    with pytest.raises(RuntimeError, match=r'1 of 4 items skipped.*max_share is 0.2'):
        run_epoch(BrokenVideoHook(max_share=0.2), log.runner, batch(3, ('v', 'torn')))


@pytest.mark.parametrize('named', [['a'], ['a', 'b'], ['a', 'b', 'c']])
def test_videos_that_are_listed_do_not_count(log, named):
    """Most of an epoch may be listed; what is not listed counts among the others."""
    log.runner.train_dataloader.dataset.known_broken = dict.fromkeys(named, 'listed')
    known = [(name, 'listed') for name in named]
    run_epoch(BrokenVideoHook(), log.runner, batch(1, *known), batch(1, *known))
    said = (
        f'epoch 1: 0 of 2 items skipped, 0 broken videos, beside {2 * len(named)} items of videos'
    )
    assert said in log.caplog.text and 'skipped broken video' not in log.caplog.text
    with pytest.raises(RuntimeError, match=r'epoch 1: 1 of 5 items skipped.*max_share is 0.1: .*'):
        run_epoch(BrokenVideoHook(), log.runner, batch(4, *known, ('d', 'torn')))


def test_max_share_is_a_share():
    with pytest.raises(ValueError, match='max_share'):
        BrokenVideoHook(max_share=2)


def test_progress_reaches_every_part_that_has_it():
    class Part(nn.Module):
        def __init__(self, **attributes):
            super().__init__()
            self.__dict__.update(attributes)

    model = nn.Module()
    model.supervision, model.losses = (
        Part(progress=1.0),
        nn.ModuleList([Part(progress=0.0), Part()]),
    )
    runner = SimpleNamespace(model=model, iter=30, max_iters=120)
    ProgressHook().before_train_iter(runner, 0)
    assert model.supervision.progress == model.losses[0].progress == 0.25
    assert not hasattr(model.losses[1], 'progress') and not hasattr(model, 'progress')
