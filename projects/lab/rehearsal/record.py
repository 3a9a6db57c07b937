"""Records of a rehearsal: losses, gradients, scalar parameters, and judged figures."""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from typing import Any, Callable, Optional

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvtr.registry import HOOKS

#: Number of times that losses are summed up, gradients inspected, and the model judged, over the
#: steps, and for the last over the minutes as well, as a schedule may be far longer than these.
BINS, LOOKS, JUDGED = 50, 60, 8
#: Seconds of CPU time between two progress messages.
TOLD = 60.0
#: Maximal number of steps that an entry of a curve stands for.
WIDEST = 20
#: Number of first steps whose gradients are all inspected, as members take turns.
ALL_AT_FIRST = 40


class Enough(Exception):
    """The requested steps or minutes are over."""


@HOOKS.register_module()
class RehearsalHook(Hook):
    """A hook that records a training.

    Args:
        steps: stop after this many; None: all of the schedule.
        minutes: stop after this many of CPU time; None: no limit.
        judge: (runner) -> figures by name, called ``JUDGED`` times over the steps, and over the
            minutes; None: never.

    Attributes:
        curves: list of (step, mean since the last entry) by name of a logged value.
        gradients: list of (step, norm) by group of parameters.
        parameters: trained parameters by name.
        largest: largest gradient norm by parameter.
        rates: sum of the learning rates over the steps that were run, by parameter.
        scalars: (first, last) value by name of a parameter of one element.
        judged: list of (step, figures).
        steps_done, seconds: steps and CPU seconds of the training.
    """

    priority = 'LOWEST'

    def __init__(
        self,
        *,
        steps: Optional[int] = None,
        minutes: Optional[float] = None,
        judge: Optional[Callable[[Runner], dict[str, float]]] = None,
    ) -> None:
        self.steps, self.minutes, self.judge = steps, minutes, judge
        self.curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.gradients: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.parameters: dict[str, nn.Parameter] = {}
        self.largest: dict[str, float] = {}
        self.rates: dict[str, float] = defaultdict(float)
        self.scalars: dict[str, list[float]] = {}
        self.judged: list[tuple[int, dict[str, float]]] = []
        self.steps_done = 0
        self.seconds = 0.0
        self._sums: dict[str, list[float]] = defaultdict(list)

    def before_train(self, runner: Runner) -> None:
        model = runner.model
        names = {id(p): name for name, p in model.named_parameters()}
        self.parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        optimizer = runner.optim_wrapper.optimizer
        self._names = [[names[id(p)] for p in g['params']] for g in optimizer.param_groups]
        self.largest = dict.fromkeys(self.parameters, 0.0)
        self.scalars = {
            n: [float(p.detach())] for n, p in self.parameters.items() if p.numel() == 1
        }
        self._total = runner.max_iters
        self._planned = min(self._total, self.steps or self._total)
        optimizer.register_step_pre_hook(self._look)
        self._start, self._told, self._judged_at = time.process_time(), 0.0, 0.0
        self._step = runner.iter

    def _look(self, optimizer: Any, *_: Any) -> None:
        """Record all rates and some gradients; called with gradients in place."""
        for group, names in zip(optimizer.param_groups, self._names):
            for name in names:
                self.rates[name] += group['lr']
        if self._step % max(1, self._planned // LOOKS) and self._step > ALL_AT_FIRST:
            return
        squares: dict[str, float] = defaultdict(float)
        for name, p in self.parameters.items():
            norm = 0.0 if p.grad is None else float(p.grad.norm())
            self.largest[name] = max(self.largest[name], norm)
            squares[group_of(name)] += norm**2
        for group, square in squares.items():
            self.gradients[group].append((self._step, math.sqrt(square)))

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: Optional[dict] = None,
        outputs: Optional[dict] = None,
    ) -> None:
        self._step = self.steps_done = runner.iter + 1
        for name, value in (outputs or {}).items():
            self._sums[name].append(float(torch.as_tensor(value).detach()))
        # If a long schedule is cut off early, the curve still needs a beginning and an end.
        width = max(1, min(self._planned // BINS, WIDEST))
        if self._step % width == 0:
            self._sum_up()
        over = self.steps is not None and self._step >= self.steps
        seconds = time.process_time() - self._start
        late = self.minutes and seconds > 60 * self.minutes
        self._tell(seconds)
        due = self.minutes and seconds - self._judged_at > 60 * self.minutes / JUDGED
        if self._step % (self._planned // JUDGED or self._planned) == 0 or due or over or late:
            self._judge(runner)
            self._judged_at = time.process_time() - self._start
        if (over or late) and self._step < self._total:
            self._end(runner)
            raise Enough

    def after_train(self, runner: Runner) -> None:
        if not self.judged or self.judged[-1][0] != self.steps_done:
            self._judge(runner)
        self._end(runner)

    def _judge(self, runner: Runner) -> None:
        if self.judge is not None:
            self.judged.append((self._step, self.judge(runner)))

    def _tell(self, seconds: float) -> None:
        """Print the progress of a long training."""
        if seconds - self._told < TOLD:
            return
        self._told = seconds
        loss = self.curves['loss'][-1][1] if self.curves.get('loss') else math.nan
        said = f'step {self._step:,} of {self._total:,}, {seconds / 60:.0f} CPU minutes'
        print(f'{said}, loss {loss:.3f}', file=sys.stderr, flush=True)

    def _sum_up(self) -> None:
        for name, values in self._sums.items():
            self.curves[name].append((self._step, sum(values) / len(values)))
        self._sums.clear()

    def _end(self, runner: Runner) -> None:
        self._sum_up()
        self.seconds = time.process_time() - self._start
        for name, values in self.scalars.items():
            values.append(float(self.parameters[name].detach()))


def group_of(name: str) -> str:
    """Return the group of a parameter in the report: the first parts of its name."""
    parts = name.split('.')
    depth = 3 if parts[0] == 'members' else 2
    if parts[0] == 'members' and parts[2] == 'encoder':
        depth = 4
    return '.'.join(parts[: min(depth, len(parts) - 1) or 1])


def mean_of(values: Tensor, chosen: Tensor) -> float:
    """Return the mean of the chosen entries; NaN if there are none."""
    return float(values[chosen].float().mean()) if chosen.any() else math.nan
