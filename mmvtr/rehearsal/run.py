"""One rehearsal: a few steps at full width, then the config's own schedule at a narrow one."""

from __future__ import annotations

import copy
import math
import shutil
import tempfile
import time
from functools import partial
from typing import Any, NamedTuple, Optional

import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch import nn

from mmvtr.engine.transforms.query_queue import QueryQueueHook
from mmvtr.models.momentum import MomentumRetriever
from mmvtr.rehearsal.expectations import check
from mmvtr.rehearsal.judge import judge, scatter
from mmvtr.rehearsal.record import Enough, RehearsalHook, bare, group_of
from mmvtr.rehearsal.simulated import simulate
from mmvtr.rehearsal.simulated_model import FULL, NARROW, Size

#: Steps of the part at full width.
FULL_STEPS = 2


class Record(NamedTuple):
    """A part of a rehearsal.

    Attributes:
        hook: what was recorded.
        notes: what was changed in the config beyond towers and data.
        total: steps of the schedule.
        parameters: trained ones, by group their number.
        bounds: by parameter of one element, the sum of its rates over the whole schedule.
        tested: metrics on the simulated test set.
        seen: items that each member saw, of a model with members.
        queue: what a queue of train queries holds, and its size.
        bank: what a memory bank holds, and its size.
        scatter: weight against loss of some pairs, where a supervision gives weights.
    """

    hook: RehearsalHook
    notes: list[str]
    total: int
    parameters: dict[str, int]
    bounds: dict[str, float]
    tested: dict[str, float]
    seen: Optional[list[int]] = None
    queue: Optional[dict[str, int]] = None
    bank: Optional[dict[str, int]] = None
    scatter: Optional[dict[str, Any]] = None


def full_width(cfg: Config, *, steps: int = FULL_STEPS) -> Record:
    """Part (a): own widths and batch, a few steps."""
    return rehearse(cfg, FULL, steps=steps, judged=False)


def own_schedule(
    cfg: Config, *, steps: Optional[int] = None, minutes: Optional[float] = None
) -> Record:
    """Part (b): own steps, rates and schedule, on narrow tokens."""
    return rehearse(cfg, NARROW, steps=steps, minutes=minutes)


def rehearse(
    cfg: Config,
    size: Size,
    *,
    steps: Optional[int] = None,
    minutes: Optional[float] = None,
    judged: bool = True,
) -> Record:
    """Train a config on simulated data.

    Args:
        cfg: of a real training.
        size: of tokens, trunk and batch.
        steps: stop after so many, None: when the schedule ends.
        minutes: stop after so many.
        judged: look at how pairs are judged on the way, and test at the end.

    Raises:
        ValueError: steps < 1; a config that cannot be simulated
            (:class:`~mmvtr.rehearsal.simulated_model.Unknown`).
    """
    if steps is not None and steps < 1:
        raise ValueError(f'steps must be at least 1, not {steps}')
    made, notes = simulate(cfg, size)
    init_default_scope(made.get('default_scope', 'mmvtr'))
    folder = tempfile.mkdtemp(prefix='rehearsal')
    made.work_dir = folder
    made.log_level = 'ERROR'
    made.default_hooks.logger = dict(type='LoggerHook', interval=1000)
    look = partial(judge, batch=cfg.train_dataloader.batch_size) if judged else None
    hook = RehearsalHook(steps=steps, minutes=minutes, judge=look)
    made.experiment_name = f'rehearsal{time.time_ns()}'
    try:
        runner = Runner.from_cfg(made)
        runner.register_hook(hook, 'LOWEST')
        try:
            runner.train()
        except Enough:
            pass
        tested = runner.test() if judged and made.get('test_dataloader') is not None else {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    model = bare(runner.model)
    counts: dict[str, int] = {}
    for name, p in model.named_parameters():
        if p.requires_grad:
            counts[group_of(name)] = counts.get(group_of(name), 0) + p.numel()
    seen = model.seen.tolist() if hasattr(model, 'seen') else None
    return Record(
        hook,
        notes,
        runner.max_iters,
        counts,
        whole_sums(runner, hook),
        tested,
        seen,
        queue_of(runner),
        bank_of(model),
        scatter(runner) if judged else None,
    )


def queue_of(runner: Runner) -> Optional[dict[str, int]]:
    """How full the shorter queue of train queries is."""
    for hook in runner.hooks:
        if isinstance(hook, QueryQueueHook):
            held = min(len(queue) for queue in hook.queues.values())
            return dict(held=held, size=hook.size)
    return None


def bank_of(model: nn.Module) -> Optional[dict[str, int]]:
    """How full the emptier memory bank is."""
    if not isinstance(model, MomentumRetriever):
        return None
    banks = model.banks.values()
    return dict(held=min(map(len, banks)), size=min(bank.size for bank in banks))


def whole_sums(runner: Runner, hook: RehearsalHook) -> dict[str, float]:
    """How far each parameter of one element can travel in the whole schedule: the sum of its rates.

    AdamW, Adam and BertAdam move a weight by about its rate at most in a step.  To what was run
    comes what the schedule has left of each parameter's own rate.
    """
    sums = {name: hook.rates[name] for name in hook.scalars}
    if hook.steps_done >= runner.max_iters or not sums:
        return sums
    left = sum(schedule(runner)[hook.steps_done :])
    groups = runner.optim_wrapper.optimizer.param_groups
    rates = {id(p): g.get('initial_lr', g['lr']) for g in groups for p in g['params']}
    parameters = dict(bare(runner.model).named_parameters())
    return {name: total + left * rates[id(parameters[name])] for name, total in sums.items()}


def schedule(runner: Runner) -> list[float]:
    """The factor of the learning rate at each step of the whole training."""
    weight = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    wrapper = OptimWrapper(optimizer)
    runner_wrapper, runner.optim_wrapper = runner.optim_wrapper, wrapper
    try:
        schedulers = runner.build_param_scheduler(
            copy.deepcopy(runner.cfg.get('param_scheduler') or [])
        )
    finally:
        runner.optim_wrapper = runner_wrapper
    factors = []
    epoch = len(runner.train_dataloader)
    for step in range(runner.max_iters):
        factors.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            if not scheduler.by_epoch or (step + 1) % epoch == 0:
                scheduler.step()
    return factors


def per_second(hook: RehearsalHook) -> float:
    """Steps a second."""
    return hook.steps_done / hook.seconds if hook.seconds else math.nan


def as_dict(record: Record) -> dict[str, Any]:
    """For a json file."""
    hook = record.hook
    return dict(
        notes=record.notes,
        total=record.total,
        steps=hook.steps_done,
        seconds=hook.seconds,
        parameters=record.parameters,
        curves=dict(hook.curves),
        gradients=dict(hook.gradients),
        dead=[name for name, value in hook.largest.items() if not value > 0],
        scalars={
            name: dict(first=v[0], last=v[-1], bound=record.bounds[name])
            for name, v in hook.scalars.items()
        },
        judged=hook.judged,
        tested={k: float(v) for k, v in record.tested.items()},
        seen=record.seen,
        queue=record.queue,
        bank=record.bank,
        scatter=record.scatter,
        moves=moves(record),
    )


def moves(record: Record) -> dict[str, float]:
    """By group the largest sum of rates of its parameters over the steps that were run."""
    sums: dict[str, float] = {}
    for name, total in record.hook.rates.items():
        group = group_of(name)
        sums[group] = max(sums.get(group, 0.0), total)
    return sums


def rehearse_config(
    cfg: Config, *, steps: Optional[int] = None, minutes: Optional[float] = None
) -> dict[str, Any]:
    """Both parts of a rehearsal, and what they are to show; errors as of :func:`rehearse`."""
    narrow = as_dict(own_schedule(cfg, steps=steps, minutes=minutes))
    full = as_dict(full_width(cfg))
    checks = check(cfg, full, narrow)
    return dict(full=full, narrow=narrow, checks=checks, width=NARROW.width)
