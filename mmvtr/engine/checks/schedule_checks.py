"""Checks before a training that the schedule and batch size of a config fit the run."""

from __future__ import annotations

import math
from typing import Any

from mmengine.config import Config
from mmengine.dist import get_world_size

from mmvtr.errors import UserError
from mmvtr.registry import bare_name


def accumulated(cfg: Config) -> int:
    """Return the number of batches per optimizer step."""
    return cfg.optim_wrapper.get('accumulative_counts', 1)


def check_joint_batch(cfg: Config) -> None:
    """Raise unless the joint batch of a step has the size for which the learning rate is set.

    ``batch_size`` is per process, the learning rate is for ``auto_scale_lr.base_batch_size`` items
    a step; a config without that number is not checked.  Call it after the process group is
    created.

    Raises:
        UserError: the batches differ and the learning rate is not scaled; states both numbers and
            how to set either.
    """
    rule = cfg.get('auto_scale_lr') or {}
    base, size = rule.get('base_batch_size'), cfg.train_dataloader.get('batch_size')
    if base is None or size is None or rule.get('enable'):
        return
    world, counts = get_world_size(), accumulated(cfg)
    batch = world * size * counts
    if batch == base:
        return
    processes = '1 process' if world == 1 else f'{world} processes'
    steps = f' x accumulative_counts {counts}' if counts > 1 else ''
    share, rest = divmod(base, world * counts)
    same = f'  train_dataloader.batch_size={share}   ({base} items, as the schedule wants)\n'
    raise UserError(
        f'{processes} x train_dataloader.batch_size {size}{steps} = {batch} items a step, '
        f'but the learning rate of {cfg.filename} is for {base}. Set one of\n'
        + same
        * (rest == 0)
        + f'  --auto-scale-lr   (the learning rate times {batch / base:g})\n'
        f'  auto_scale_lr.base_batch_size={batch}   (this learning rate is meant for {batch})\n'
        'keys after --cfg-options.'
    )


def check_warmup(cfg: Config) -> None:
    """Raise if a scheduler begins at the end of the training because the warm-up is as long.

    Raises:
        UserError: a scheduler does, see :func:`warmup_fault`.
    """
    fault = warmup_fault(cfg)
    if fault:
        raise UserError(f'{cfg.filename}: {fault}')


def warmup_fault(cfg: Config) -> str:
    """Return the fault of a scheduler that begins at the end of the training, or ''.

    The text states the lengths of warm-up and training, in epochs, and what to set.  If the config
    sets ``fit_warmup``, the warm-up will be shortened (:func:`fit_warmup`), which is not a fault.
    """
    epochs = (cfg.get('train_cfg') or {}).get('max_epochs')
    stated = cfg.get('param_scheduler') or []
    if cfg.get('fit_warmup') or epochs is None:
        return ''
    schedulers = stated if isinstance(stated, (list, tuple)) else [stated]
    for i, scheduler in enumerate(schedulers):
        begin = scheduler.get('begin', 0)
        if not scheduler.get('by_epoch', True) or begin < epochs:
            continue
        warmups = {j: s for j, s in enumerate(schedulers) if s.get('end', 0) >= epochs}
        ends = ''.join(f'{bare_name(s)} (param_scheduler.{j}) ends, ' for j, s in warmups.items())
        keys = [*(f'param_scheduler.{j}.end' for j in warmups), f'param_scheduler.{i}.begin']
        return (
            f'at epoch {begin:g} the warm-up, {ends}and {bare_name(scheduler)} '
            f'(param_scheduler.{i}) begins, but train_cfg.max_epochs is {epochs}. Train longer, '
            f'or --cfg-options {" ".join(f"{key}={epochs / 10:g}" for key in keys)}'
        )
    return ''


def fit_warmup(param_scheduler: Any, *, epochs: int, steps: int) -> tuple[list[dict], str]:
    """Return schedulers with the warm-up shortened if it is as long as the training or longer.

    The warm-up becomes a tenth of the training, at least two steps (of which the first has the
    lowest rate); a training of two steps or fewer has none.  Longer trainings are unchanged.

    Args:
        param_scheduler: that of a config, in epochs with ``convert_to_iter_based``.
        epochs: epochs of the training.
        steps: steps per epoch.

    Returns:
        The schedulers, in steps if they were changed, and a message about it ('' if not).
    """
    schedulers = (
        list(param_scheduler) if isinstance(param_scheduler, (list, tuple)) else [param_scheduler]
    )
    in_epochs = [s for s in schedulers if isinstance(s, dict) and s.get('convert_to_iter_based')]
    if all(s.get('begin', 0) < epochs for s in in_epochs):
        return schedulers, ''
    total, first = epochs * steps, max(s.get('begin', 0) for s in in_epochs)
    warmup = max(2, round(total / 10)) if total > 2 else 0
    fitted = []
    for scheduler in schedulers:
        if scheduler not in in_epochs:
            fitted.append(scheduler)
            continue
        changed = dict(scheduler, by_epoch=False)
        changed.pop('convert_to_iter_based')
        changed['begin'] = warmup if changed.get('begin', 0) else 0
        changed['end'] = warmup if changed.get('end', math.inf) <= first else total
        if changed['begin'] < changed['end']:
            fitted.append(changed)
    return fitted, (
        f'the warm-up of {first:g} epochs does not fit into {epochs}: it takes {warmup} of the '
        f'{total} steps'
    )


def linear_rule(cfg: Config) -> dict[str, Any] | None:
    """Return ``auto_scale_lr`` for mmengine's rule, which ignores accumulated batches."""
    rule = cfg.get('auto_scale_lr')
    if not rule or rule.get('base_batch_size') is None:
        return rule
    return dict(rule, base_batch_size=rule['base_batch_size'] / accumulated(cfg))
