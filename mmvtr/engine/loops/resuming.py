"""Resuming a training with another config: what is rejected, and how the rest takes effect."""

from __future__ import annotations

import copy
import random
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
import torch
from mmengine.hooks import EMAHook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmvtr.engine.loops.facts_of_run import rates_of, wrappers_of
from mmvtr.engine.loops.resume_rules import REFUSED, Change, changes, values_of
from mmvtr.registry import MODELS

#: Optimizer options that a schedule may change; others (momentum) cannot be replayed.
SCHEDULED = ('lr', 'weight_decay')


def changes_since(runner: Runner, checkpoint: Mapping[str, Any], path: Any) -> list[Change]:
    """Return the runner's config values that differ from those of its checkpoint.

    Raises:
        ValueError: the checkpoint's values are not a dict.
    """
    stored = checkpoint['meta']['values']
    if not isinstance(stored, dict):
        raise ValueError(f"{path}: meta['values']: a dict expected, got {stored!r:.80}")
    return changes(stored, values_of(runner.cfg.to_dict()))


def refusal(
    runner: Runner, found: Sequence[Change], checkpoint: Mapping[str, Any]
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
    for change in found:
        if change.rule.action == REFUSED and not _no_choice(runner, change, checkpoint):
            return str(change)
    if 'ema_state_dict' in checkpoint and not any(isinstance(h, EMAHook) for h in runner.hooks):
        return 'it holds averaged weights, and custom_hooks has no EMAHook'
    return _start_of_weight(runner, found)


def _no_choice(runner: Runner, change: Change, checkpoint: Mapping[str, Any]) -> bool:
    """Return whether a change concerns the choice of the best epoch, and no choice is made."""
    if change.key.partition('.')[0] in ('optim_wrapper', 'train_cfg', 'train_dataloader'):
        return False
    best = checkpoint['message_hub'].get('runtime_info', {}).get('best_score')
    return best is None or runner.cfg.get('val_dataloader') is None


def _start_of_weight(runner: Runner, found: Sequence[Change]) -> Optional[str]:
    """Return an error if a changed number of the model is only a weight's initial value.

    The model is also built with the earlier number and the same seed: state that differs is a
    weight, which the checkpoint overrides.
    """
    numbers = [
        one for one in found if one.key.startswith('model.') and _number(one.before, one.now)
    ]
    own = _built(runner.cfg.model) if numbers else {}
    for change in numbers:
        model = copy.deepcopy(runner.cfg.model)
        *path, last = change.key.split('.')[1:]
        part = model
        for name in path:
            part = part[int(name) if isinstance(part, (list, tuple)) else name]
        part[last] = change.before
        before = _built(model)
        for name, value in own.items():
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
    found = []
    for group in _groups(runner):
        names = [n for n in group if n != 'params' and not n.startswith('initial_')]
        found.append({name: group.get(f'initial_{name}', group[name]) for name in names})
    return found


def _groups(runner: Runner) -> list[dict[str, Any]]:
    return [group for one in wrappers_of(runner.optim_wrapper) for group in one.param_groups]


def rebuild_schedule(runner: Runner, options: Sequence[Mapping[str, Any]]) -> str:
    """Set a resumed runner's rates and schedule from its config, at the step that it has reached.

    The schedule is rebuilt and replays all completed steps, as in an uninterrupted training.

    Args:
        options: result of :func:`options_of` before the checkpoint was loaded.

    Returns:
        A message for the log.

    Raises:
        SystemExit: a schedule of momentum, or one that follows a metric.
    """
    for group, own in zip(_groups(runner), options):
        for name in [name for name in group if name.startswith('initial_')]:
            del group[name]
        group.update(copy.deepcopy(own))
    given = runner.cfg.get('param_scheduler')
    if given:
        runner.param_schedulers = runner.build_param_scheduler(copy.deepcopy(given))
        _replay(runner)
    loop = runner.train_loop
    by_epoch = isinstance(loop, EpochBasedTrainLoop)
    length = f'{loop.max_epochs} epochs' if by_epoch else f'{loop.max_iters} iterations'
    base = ', '.join(f'{rate:g}' for rate, _ in rates_of(wrappers_of(runner.optim_wrapper)))
    now = dict.fromkeys(
        f'{group["lr"]:.3g}'
        for one in wrappers_of(runner.optim_wrapper)
        for group in one.optimizer.param_groups
    )
    return (
        f'the schedule is that of {length}, from step {runner.iter} of {loop.max_iters} on: '
        f'learning rate {", ".join(now)} of {base}'
    )


def _replay(runner: Runner) -> None:
    built: Union[list, dict] = runner.param_schedulers
    listed = [one for own in built.values() for one in own] if isinstance(built, dict) else built
    for one in listed:
        if one.param_name not in SCHEDULED or getattr(one, 'need_val_args', False):
            raise SystemExit(
                f'error: {type(one).__name__} of {one.param_name} cannot be brought to step '
                f'{runner.iter}: resume with the previous values'
            )
    for wrapper in wrappers_of(runner.optim_wrapper):
        wrapper._global_step = 0  # the wrapper has made steps: otherwise every scheduler warns
    size = len(runner.train_dataloader) if runner.epoch else 0
    for step in range(1, runner.iter + 1):
        for one in listed:
            if not one.by_epoch or (size and step % size == 0):
                one.step()
