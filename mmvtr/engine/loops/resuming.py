"""Resuming a training, also with another config: what is rejected, how the rest takes effect."""

from __future__ import annotations

import copy
import random
import sys
from itertools import chain
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dist import get_world_size, is_main_process
from mmengine.hooks import EMAHook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmvtr.engine.loops.checkpoint import (
    data_order,
    groups_in,
    latest_checkpoint,
    pointed_checkpoint,
)
from mmvtr.engine.loops.facts import trainings_of
from mmvtr.engine.loops.resume_rules import CHOICE, REFUSED, RESCALED, Change, changes, values_of
from mmvtr.engine.optim_wrappers import rates_of, wrappers_of
from mmvtr.engine.schedulers import schedulers_of
from mmvtr.errors import UserError
from mmvtr.registry import MODELS
from mmvtr.storage.weights import read_checkpoint

#: Optimizer options that a schedule may change; others (momentum) cannot be replayed.
SCHEDULED = ('lr', 'weight_decay')


def resume(cfg: Config, path: str, *, seed: Optional[int] = None) -> None:
    """Set ``cfg`` to continue a training.

    Args:
        cfg: its ``resume``, ``load_from`` and ``randomness`` are set.
        path: a checkpoint, or 'auto' for the newest one in ``cfg.work_dir``; if there is none yet,
            a new training starts.
        seed: the seed the user wants; it must be that of the checkpoint, because the order of the
            data depends on it.

    Raises:
        FileNotFoundError, RuntimeError, ValueError: no such checkpoint, or a damaged one.
        UserError: one of another seed, or one with weights but without training state.
    """
    file = latest_checkpoint(cfg.work_dir) if path == 'auto' else path
    if file is None:
        cfg.resume = False
        return
    pointed = pointed_checkpoint(cfg.work_dir) if path == 'auto' else None
    if pointed is not None and pointed.is_file() and not pointed.samefile(file):
        _say(f'resumed from {file}; last_checkpoint names {pointed}, of the run that was copied')
    checkpoint = read_checkpoint(file)
    missing = [name for name in _needed(cfg) if not _holds(checkpoint, name)]
    if missing:
        raise UserError(
            f'{file} cannot be resumed: it holds no {", no ".join(missing)}.{_anew(file)}'
        )
    trained = checkpoint['meta'].get('seed')
    if seed is not None and trained is not None and seed != trained:
        raise UserError(f'{file} was trained with seed {trained}, not {seed}')
    if trained is not None:
        config_seed = (cfg.get('randomness') or {}).get('seed')
        if seed is None and config_seed not in (None, trained):
            _say(
                f'randomness.seed={config_seed} of the config: {file} was trained with {trained}, '
                'which stays'
            )
        cfg.merge_from_dict({'randomness.seed': trained})
    cfg.load_from, cfg.resume = file, True


def _say(message: str) -> None:
    """Print a line before the logger exists, once for all processes."""
    if is_main_process():
        print(message, file=sys.stderr, flush=True)


def _needed(cfg: Config) -> list[str]:
    """Return the names of the state that a training needs to be resumed."""
    schedule = ['param_schedulers'] if cfg.get('param_scheduler') else []
    of_meta = [f'meta.{name}' for name in ('epoch', 'iter', 'order', 'groups', 'values')]
    return [*of_meta, 'message_hub', 'optimizer.param_groups', *schedule]


def _holds(content: Any, name: str) -> bool:
    for key in name.split('.'):
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True


def _anew(path: Union[str, Path]) -> str:
    """Return a hint for an error: what a checkpoint without training state can be used for."""
    return f' Its weights can start a new training: --cfg-options load_from={path}'


def check_resume(runner: Runner, checkpoint: dict[str, Any], path: Union[str, Path]) -> bool:
    """Raise unless a training can go on from a checkpoint; log the differences from before.

    It builds the runner's optimizer.

    Args:
        runner: runner of a config with ``resume``.
        checkpoint: result of :func:`~mmvtr.storage.weights.read_checkpoint`; of the same model.
        path: path of the file, for messages.

    Returns:
        Whether rates and schedule are taken from the config (:meth:`.ToolRunner.resume`).

    Raises:
        UserError: it cannot; names the value.
        ValueError: the checkpoint's values are not a dict.
    """
    _check_optimizer(runner, checkpoint, path)
    _check_order(runner, checkpoint, path)
    stored = checkpoint['meta']['values']
    if not isinstance(stored, dict):
        raise ValueError(f"{path}: meta['values']: a dict expected, got {stored!r:.80}")
    changed = changes(stored, values_of(runner.cfg.to_dict()))
    why = _refusal(runner, changed, checkpoint)
    if why is not None:
        raise UserError(f'{path} cannot be resumed: {why}.{_anew(path)}')
    for change in changed:
        runner.logger.info(f'resumed with another value: {change}')
    return any(change.rule.action == RESCALED for change in changed)


def _check_optimizer(runner: Runner, checkpoint: dict[str, Any], path: Union[str, Path]) -> None:
    """Raise unless a training can be resumed with a checkpoint's optimizer state.

    The config determines which parameters share a learning rate and a weight decay: with another
    ``optim_wrapper.constructor`` or ``paramwise_cfg`` the stored moments no longer fit.

    Raises:
        UserError: its parameter groups are not those of ``runner``'s config.
    """
    runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    sizes, stored = (
        [len(group['params']) for group in optimizer['param_groups']]
        for optimizer in (runner.optim_wrapper.state_dict(), checkpoint['optimizer'])
    )
    if sizes != stored:
        raise UserError(
            f'{path} cannot be resumed: its optimizer has {len(stored)} groups of '
            f'{sum(stored)} parameters, that of this config {len(sizes)} of {sum(sizes)} (another '
            f'optim_wrapper.constructor or paramwise_cfg).{_anew(path)}'
        )
    pairs = zip(chain(*checkpoint['meta']['groups']), chain(*groups_in(runner)))
    other = next((f'{now} in the place of {before}' for before, now in pairs if now != before), '')
    if other:
        raise UserError(
            f'{path} cannot be resumed: the groups of its optimizer hold other parameters, '
            f'{other} (another optim_wrapper.constructor or paramwise_cfg).{_anew(path)}'
        )


def _check_order(runner: Runner, checkpoint: dict[str, Any], path: Union[str, Path]) -> None:
    """Raise unless a resumed training gets its data in the order of an uninterrupted one.

    The same joint batch over another number of processes is accepted, with a log message about the
    difference; so are as many other items, or the same ones in another order.

    Raises:
        UserError: other numbers of items, of items in a joint batch, or of batches per step.
    """
    meta, present = checkpoint['meta'], data_order(runner)
    trained = meta['order']
    if present != trained:
        orders = [
            ', '.join(f'{value:g} {name.replace("_", " ")}' for name, value in order.items())
            for order in (trained, present)
        ]
        raise UserError(
            f'{path} cannot be resumed: it was trained with {orders[0]}, this run has '
            f'{orders[1]}, so that the data would come in another order.{_anew(path)}'
        )
    (training,) = trainings_of(checkpoint, path)
    dataset = runner.train_dataloader.dataset
    ids = dataset.protocol().get('ids_sha') if hasattr(dataset, 'protocol') else None
    if training.ids is not None and ids not in (None, training.ids):
        runner.logger.warning(
            f'the training set has other ids, or the same in another order (hash {ids}), than that '
            f'of {path} ({training.ids}): from here on other items are trained'
        )
    before, now = meta.get('processes'), get_world_size()
    if before not in (None, now):
        runner.logger.warning(
            f'{path} was trained by {_processes(before)}, this run has {_processes(now)}: the '
            'joint batches are the same, but each process draws its own random numbers (dropout, '
            'frames) and sums are rounded in another order. The end will not be exactly that of '
            'an uninterrupted run'
        )


def _processes(count: int) -> str:
    """Return a count in words, '1 process', '2 processes'."""
    return '1 process' if count == 1 else f'{count} processes'


def _refusal(
    runner: Runner, changed: Sequence[Change], checkpoint: Mapping[str, Any]
) -> Optional[str]:
    """Return why a training cannot be resumed with changed values; None if it can."""
    done = checkpoint['meta']
    loop = runner.train_loop
    if isinstance(loop, EpochBasedTrainLoop):
        if loop.max_epochs < done['epoch']:
            return (
                f'it has {done["epoch"]} epochs behind it, train_cfg.max_epochs={loop.max_epochs}'
            )
        if done['iter'] != done['epoch'] * len(loop.dataloader):
            return (
                f'its {done["epoch"]} epochs had {done["iter"]} steps, an epoch of this run has '
                f'{len(loop.dataloader)}'
            )
    elif loop.max_iters < done['iter']:
        return f'it has {done["iter"]} steps behind it, train_cfg.max_iters={loop.max_iters}'
    for change in changed:
        if change.rule.action == REFUSED and not _no_choice(runner, change, checkpoint):
            return str(change)
    if 'ema_state_dict' in checkpoint and not any(isinstance(h, EMAHook) for h in runner.hooks):
        return 'it holds averaged weights, and custom_hooks has no EMAHook'
    return _start_of_weight(runner, changed)


def _no_choice(runner: Runner, change: Change, checkpoint: Mapping[str, Any]) -> bool:
    """Return whether a change concerns the choice of the best epoch, and no choice is made."""
    if change.rule is not CHOICE:
        return False
    best = checkpoint['message_hub'].get('runtime_info', {}).get('best_score')
    return best is None or runner.cfg.get('val_dataloader') is None


def _start_of_weight(runner: Runner, changed: Sequence[Change]) -> Optional[str]:
    """Return an error if a changed number of the model is only a weight's initial value.

    The model is also built with the earlier number and the same seed: state that differs is a
    weight, which the checkpoint overrides.
    """
    changed = [c for c in changed if c.key.startswith('model.') and _number(c.before, c.now)]
    state = _built(runner.cfg.model) if changed else {}
    for change in changed:
        model = copy.deepcopy(runner.cfg.model)
        *path, last = change.key.split('.')[1:]
        part = model
        for name in path:
            part = part[int(name) if isinstance(part, (list, tuple)) else name]
        part[last] = change.before
        before = _built(model)
        for name, value in state.items():
            if name in before and not torch.equal(value, before[name]):
                return (
                    f'{change.key} was {change.before!r}, is {change.now!r}: it is the start of '
                    f'{name}, which the checkpoint holds'
                )
    return None


def _number(*values: Any) -> bool:
    return all(type(value) in (int, float) for value in values)


def _built(cfg: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the initial state of a model built from its config, with a fixed seed."""
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        try:
            return MODELS.build(copy.deepcopy(cfg)).state_dict()
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


# -- rates and schedule --------------------------------------------------------------------------


def options_of(runner: Runner) -> list[dict[str, Any]]:
    """Return all parameter groups' options as configured, before any schedule."""
    options = []
    for group in _groups(runner):
        names = [n for n in group if n != 'params' and not n.startswith('initial_')]
        options.append({name: group.get(f'initial_{name}', group[name]) for name in names})
    return options


def _groups(runner: Runner) -> list[dict[str, Any]]:
    return [
        group for wrapper in wrappers_of(runner.optim_wrapper) for group in wrapper.param_groups
    ]


def rebuild_schedule(runner: Runner, options: Sequence[Mapping[str, Any]]) -> str:
    """Set a resumed runner's rates and schedule from its config, at the step that it has reached.

    The schedule is rebuilt and replays all completed steps, as in an uninterrupted training.

    Args:
        options: result of :func:`options_of` before the checkpoint was loaded.

    Returns:
        A message for the log.

    Raises:
        UserError: a schedule of momentum, or one that follows a metric.
    """
    for group, configured in zip(_groups(runner), options):
        for name in [name for name in group if name.startswith('initial_')]:
            del group[name]
        group.update(copy.deepcopy(configured))
    schedule = runner.cfg.get('param_scheduler')
    if schedule:
        runner.param_schedulers = runner.build_param_scheduler(copy.deepcopy(schedule))
        _replay(runner)
    loop = runner.train_loop
    by_epoch = isinstance(loop, EpochBasedTrainLoop)
    length = f'{loop.max_epochs} epochs' if by_epoch else f'{loop.max_iters} iterations'
    base = ', '.join(f'{rate:g}' for rate, _ in rates_of(wrappers_of(runner.optim_wrapper)))
    now = dict.fromkeys(
        f'{group["lr"]:.3g}'
        for wrapper in wrappers_of(runner.optim_wrapper)
        for group in wrapper.optimizer.param_groups
    )
    return (
        f'the schedule is that of {length}, from step {runner.iter} of {loop.max_iters} on: '
        f'learning rate {", ".join(now)} of {base}'
    )


def _replay(runner: Runner) -> None:
    schedulers = schedulers_of(runner)
    for scheduler in schedulers:
        parameter = scheduler.param_name
        if parameter not in SCHEDULED or getattr(scheduler, 'need_val_args', False):
            raise UserError(
                f'the schedule {type(scheduler).__name__} of {parameter} cannot be computed anew '
                f'up to step {runner.iter}: resume with the values that the training began with'
            )
    for wrapper in wrappers_of(runner.optim_wrapper):
        wrapper._global_step = 0  # the wrapper has made steps: otherwise every scheduler warns
    size = len(runner.train_dataloader) if runner.epoch else 0
    for step in range(1, runner.iter + 1):
        for scheduler in schedulers:
            if not scheduler.by_epoch or (size and step % size == 0):
                scheduler.step()
