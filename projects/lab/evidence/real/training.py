"""One training in this process, by mmengine's Runner and the project's loops and hooks."""

from __future__ import annotations

import copy
import math
import time
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Optional

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvtr.registry import HOOKS
from mmvtr.structures import Levels


class Schedule(NamedTuple):
    """How long a set is trained, and in which batches."""

    epochs: int
    batch: int = 128
    looks: int = 6


@HOOKS.register_module()
class Looks(Hook):
    """Asks how good the model is on val at evenly spread epochs, and keeps the best weights.

    Args:
        judge: a model -> its figure on val.
        looks: how often.
        name: of the training, for a line at its begin and at each look; '': none.
    """

    priority = 'LOWEST'

    def __init__(self, judge: Callable[[nn.Module], float], looks: int, name: str = '') -> None:
        self.judge, self.looks, self.name = judge, looks, name
        self.curve: list[tuple[int, float]] = []
        self.best: Optional[dict[str, Tensor]] = None

    def before_train(self, runner: Runner) -> None:
        steps = len(runner.train_dataloader)
        self._say(f'{runner.max_epochs} epochs of {steps} steps, {runner.max_iters} in all')

    def _say(self, line: str) -> None:
        if self.name:
            print(f'{self.name}: {line}', flush=True)

    def after_train_epoch(self, runner: Runner) -> None:
        epoch, epochs = runner.epoch + 1, runner.max_epochs
        wanted = {math.ceil(epochs * n / self.looks) for n in range(1, self.looks + 1)}
        if epoch not in wanted:
            return
        value = self.judge(runner.model)
        if not self.curve or value > max(x for _, x in self.curve):
            self.best = copy.deepcopy(runner.model.state_dict())
        self.curve.append((epoch, value))
        self._say(f'epoch {epoch} of {epochs}, val {value:.1f}')


class Trained(NamedTuple):
    """What a training leaves.

    Attributes:
        model: with the weights of the last epoch.
        best: those of the look with the highest value.
        curve: (epoch, value) of each look.
        seconds: of the training, looks included.
    """

    model: nn.Module
    best: dict[str, Tensor]
    curve: list[tuple[int, float]]
    seconds: float


def train(
    model: Mapping[str, Any],
    dataset: Any,
    schedule: Schedule,
    *,
    rate: float,
    rates: Mapping[str, float] = {},
    seed: int,
    judge: Callable[[nn.Module], float],
    hooks: Any,
    work_dir: Path,
    by_part: bool = False,
    name: str = '',
    own: Mapping[str, Any] = {},
) -> Trained:
    """Train a model on a dataset that is there already.

    Args:
        rates: of parameters by a part of their name, times ``rate``; such have no weight decay.
        by_part: a batch is of one environment of the dataset.
        name: of the training in lines of progress; '': none.
        own: ``optim_wrapper`` and ``param_scheduler`` in place of the common ones and the rates.
    """
    looks = Looks(judge, schedule.looks, name)
    start = time.time()
    warmup = max(1, round(0.1 * schedule.epochs))
    cfg = Config(
        dict(
            default_scope='mmvtr',
            model=dict(model),
            work_dir=str(work_dir),
            experiment_name=f'{work_dir.name}_{time.time_ns()}',
            train_cfg=dict(type='EpochBasedTrainLoop', max_epochs=schedule.epochs),
            optim_wrapper=dict(
                type='OptimWrapper',
                optimizer=dict(type='AdamW', lr=rate, weight_decay=0.05, fused=True),
                clip_grad=dict(max_norm=1.0),
                paramwise_cfg=dict(
                    custom_keys={
                        'temperature': dict(decay_mult=0.0),
                        **{name: dict(lr_mult=x, decay_mult=0.0) for name, x in rates.items()},
                    }
                ),
            ),
            param_scheduler=[
                dict(type='LinearLR', start_factor=0.1, end=warmup, convert_to_iter_based=True),
                dict(
                    type='CosineAnnealingLR',
                    begin=warmup,
                    eta_min_ratio=0.01,
                    convert_to_iter_based=True,
                ),
            ],
            default_hooks=dict(runtime_info=None, timer=None, logger=None, checkpoint=None),
            custom_hooks=[
                dict(type='mmvtr.ExactSeedHook'),
                dict(type='mmvtr.ProgressHook'),
                *hooks,
            ],
            log_level='ERROR',
            log_processor=dict(type='LogProcessor'),
            visualizer=dict(type='Visualizer', vis_backends=[]),
            randomness=dict(seed=seed),
        )
        | own
    )
    batches = dict(batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler')) if by_part else {}
    runner = Runner(
        **{name: cfg.get(name) for name in _TAKEN if name in cfg},
        train_dataloader=dict(
            dataset=dataset,
            batch_size=schedule.batch,
            sampler=dict(type='mmvtr.EpochSampler', seed=seed),
            collate_fn=dict(type='mmvtr.as_read'),
            **batches,
        ),
        cfg=cfg,
    )
    runner.register_hook(looks)
    runner.train()
    return Trained(runner.model, looks.best, looks.curve, time.time() - start)


_TAKEN = (
    'model work_dir train_cfg optim_wrapper param_scheduler default_hooks custom_hooks log_level '
    'log_processor visualizer randomness experiment_name default_scope'
).split()


@torch.no_grad()
def encode(model: nn.Module, inputs: Mapping[str, Any], part: int = 4096) -> tuple[Levels, Levels]:
    """Levels of the texts and of the videos of a whole set, in eval mode."""
    model.eval()
    return model.encode_text(inputs), model.encode_video(inputs)
