"""One rehearsal: a few steps at full width, then the config's own schedule at a narrow width."""

from __future__ import annotations

import copy
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Iterator, Optional

import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import init_default_scope
from mmengine.runner import Runner

from mmvtr.engine.hooks.query_queue import QueryQueueHook
from mmvtr.engine.optim_wrappers import check_custom_keys
from mmvtr.models.momentum import MomentumRetriever
from mmvtr.registry import bare_name
from mmvtr.utils import load_config
from rehearsal.expectations import check
from rehearsal.judge import judge, scatter
from rehearsal.record import Enough, RehearsalHook, group_of
from simulation.simulated import simulate
from simulation.simulated_model import FULL, NARROW, Size

#: Number of steps of the part at full width.
FULL_STEPS = 2


def rehearse_config(
    cfg: Config,
    *,
    steps: Optional[int] = None,
    minutes: Optional[float] = None,
    items: float = 1.0,
) -> dict[str, Any]:
    """Run both parts of a rehearsal and check the expectations; errors as in :func:`rehearse`.

    Args:
        cfg, steps, minutes: see :func:`rehearse`.
        items: share of the items of an epoch to use in the config's own schedule.
    """
    narrow = rehearse(cfg, NARROW._replace(items=items), steps=steps, minutes=minutes)
    full = rehearse(cfg, FULL, steps=FULL_STEPS, judged=False)
    return dict(full=full, narrow=narrow, checks=check(cfg, full, narrow))


def rehearse(
    cfg: Config,
    size: Size,
    *,
    steps: Optional[int] = None,
    minutes: Optional[float] = None,
    judged: bool = True,
) -> dict[str, Any]:
    """Train a config on simulated data.

    Args:
        cfg: config of a real training.
        size: sizes of tokens, trunk and batch.
        steps: stop after this many; None: when the schedule ends.
        minutes: stop after this many.
        judged: judge pairs during the training, and test at the end.

    Returns:
        A record that json can hold: what a :class:`~rehearsal.record.RehearsalHook` recorded
        (``steps``, ``seconds``, ``curves``, ``gradients``, ``judged``), and

        ``notes``: what was changed in the config beyond towers and data;
        ``total``: steps of the schedule; ``items``: share of the items that its epochs have;
        ``parameters``, ``moves``: by group, the number of trained parameters, and the largest sum
            of
        rates over the steps that were run;
        ``dead``: names of parameters that never had a gradient;
        ``scalars``: of each parameter of one element ``first``, ``last`` and ``bound``, the sum of
        its rates over the whole schedule;
        ``stores``: (name, kind of item, items held, size) of queues and banks;
        ``tested``: metrics on the simulated test set;
        ``scatter``: weight against loss of some pairs, if a supervision gives weights.

    Raises:
        ValueError: steps < 1; a config that cannot be simulated
            (:class:`~simulation.simulated_model.Unknown`).
    """
    if steps is not None and steps < 1:
        raise ValueError(f'steps must be at least 1, not {steps}')
    made, notes = simulate(cfg, size)
    init_default_scope(made.get('default_scope', 'mmvtr'))
    folder = tempfile.mkdtemp(prefix='rehearsal')
    if bare_name(made.model.get('supervision')) == 'FrozenTeachers':
        notes.append(_load_teacher(cfg, made, size, Path(folder), steps))
    made.work_dir = folder
    made.log_level = 'ERROR'
    made.default_hooks.logger = dict(type='LoggerHook', interval=1000)
    look = partial(judge, batch=cfg.train_dataloader.batch_size) if judged else None
    hook = RehearsalHook(steps=steps, minutes=minutes, judge=look)
    made.experiment_name = f'rehearsal{time.time_ns()}'
    try:
        runner = Runner.from_cfg(made)
        check_custom_keys(made.optim_wrapper.get('paramwise_cfg'), runner.model)
        runner.register_hook(hook, 'LOWEST')
        try:
            runner.train()
        except Enough:
            pass
        tested = runner.test() if judged and made.get('test_dataloader') is not None else {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    bounds = whole_sums(runner, hook)
    parameters: dict[str, int] = {}
    moves: dict[str, float] = {}
    for name, p in hook.parameters.items():
        group = group_of(name)
        parameters[group] = parameters.get(group, 0) + p.numel()
        moves[group] = max(moves.get(group, 0.0), hook.rates[name])
    return dict(
        notes=notes,
        total=runner.max_iters,
        items=size.items,
        steps=hook.steps_done,
        seconds=hook.seconds,
        parameters=parameters,
        moves=moves,
        curves=dict(hook.curves),
        gradients=dict(hook.gradients),
        dead=[name for name, value in hook.largest.items() if not value > 0],
        scalars={
            name: dict(first=first, last=last, bound=bounds[name])
            for name, (first, last) in hook.scalars.items()
        },
        judged=hook.judged,
        stores=list(stores(runner)),
        tested={name: float(value) for name, value in tested.items()},
        scatter=scatter(runner) if judged else None,
    )


def _load_teacher(cfg: Config, made: Config, size: Size, folder: Path, steps: Optional[int]) -> str:
    """Train the first config that comes before a student's, as all its teachers; return a note."""
    first = next(iter(cfg.before.values())).config
    teacher, _ = simulate(load_config(Path(first).stem), size)
    teacher.work_dir, teacher.log_level = str(folder), 'ERROR'
    teacher.experiment_name = f'rehearsal{time.time_ns()}'
    runner = Runner.from_cfg(teacher)
    runner.register_hook(RehearsalHook(steps=steps), 'LOWEST')
    try:
        runner.train()
    except Enough:
        pass
    member = dict(config=str(folder / 'teacher.py'), checkpoint=str(folder / 'teacher.pth'))
    teacher.dump(member['config'])
    torch.save(dict(state_dict=runner.model.state_dict()), member['checkpoint'])
    count = len(made.model.supervision.members)
    made.model.supervision.members = [member] * count
    return f'{count} times one teacher, trained as well, in place of {count} teachers'


def stores(runner: Runner) -> Iterator[tuple[str, str, int, int]]:
    """Yield name, kind of item, items held and size of the emptiest store of each kind."""
    for hook in runner.hooks:
        if isinstance(hook, QueryQueueHook):
            yield 'queue', 'train queries', min(map(len, hook.queues.values())), hook.size
    model = runner.model
    if isinstance(model, MomentumRetriever):
        banks = model.banks.values()
        yield 'bank', 'keys', min(map(len, banks)), min(bank.size for bank in banks)


def whole_sums(runner: Runner, hook: RehearsalHook) -> dict[str, float]:
    """Return how far each scalar parameter can move in the whole schedule: the sum of its rates.

    AdamW, Adam and BertAdam move a weight by at most about its rate per step.  The rates of the
    steps that were run are added to those of the rest of the schedule.
    """
    sums = {name: hook.rates[name] for name in hook.scalars}
    if hook.steps_done >= runner.max_iters or not sums:
        return sums
    left = sum(schedule(runner)[hook.steps_done :])
    groups = runner.optim_wrapper.optimizer.param_groups
    rates = {id(p): g.get('initial_lr', g['lr']) for g in groups for p in g['params']}
    return {name: sum_ + left * rates[id(hook.parameters[name])] for name, sum_ in sums.items()}


def schedule(runner: Runner) -> list[float]:
    """Return the factor of the learning rate at each step of the whole training."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=1.0)
    own, runner.optim_wrapper = runner.optim_wrapper, OptimWrapper(optimizer)
    try:
        schedulers = runner.build_param_scheduler(
            copy.deepcopy(runner.cfg.get('param_scheduler') or [])
        )
    finally:
        runner.optim_wrapper = own
    factors = []
    epoch = len(runner.train_dataloader)
    for step in range(runner.max_iters):
        factors.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            if not scheduler.by_epoch or (step + 1) % epoch == 0:
                scheduler.step()
    return factors
