"""Hooks of single training steps: random numbers, ramps, key encoders."""

from __future__ import annotations

import random
from typing import Any, Optional

import numpy as np
import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.engine.loops.evaluation import bare
from mmvtr.registry import HOOKS


@HOOKS.register_module()
class ExactSeedHook(Hook):
    """Hook that makes randomness a function of (seed, step, rank), and constant in evaluations.

    It seeds Python, numpy and torch before every training step and every evaluated batch.  Earlier
    events (a validation, another logging interval, a kill and a resume) then do not affect later
    steps, and testing a checkpoint reproduces the numbers from when it was saved.
    """

    priority = 'VERY_HIGH'

    def _before_epoch(self, runner: Runner, mode: str = 'train') -> None:
        seed_all(*self._key(runner, mode, 0), 0)

    def _before_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, mode: str = 'train'
    ) -> None:
        seed_all(*self._key(runner, mode, batch_idx), 1)

    def _key(self, runner: Runner, mode: str, batch_idx: int) -> tuple[int, ...]:
        if mode == 'train':
            return runner.seed, 0, runner.iter, get_rank()
        return 0, 1, batch_idx, get_rank()


def seed_all(*key: int) -> None:
    """Seed Python's, numpy's and torch's generators (CUDA included) from non-negative integers."""
    seeds = np.random.SeedSequence(key).generate_state(3).tolist()
    random.seed(seeds[0])
    np.random.seed(seeds[1])
    # torch.manual_seed does the same, but formats a stack trace if CUDA is not in use.
    torch.default_generator.manual_seed(seeds[2])
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seeds[2])


@HOOKS.register_module()
class ProgressHook(Hook):
    """Hook that passes the training's progress to the model, so that ramps fit any schedule.

    Sets ``progress``, in [0, 1), of every part of the model (supervision, losses) that has it.
    """

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Optional[dict] = None
    ) -> None:
        for module in runner.model.modules():
            if hasattr(module, 'progress'):
                module.progress = runner.iter / runner.max_iters


@HOOKS.register_module()
class MomentumHook(Hook):
    """Hook that calls the model's ``follow()`` after each actual optimizer step.

    So steps that only accumulate gradients, or are skipped after an fp16 overflow, do not update
    key encoders.

    Raises:
        ValueError: (before training) a model that cannot follow.
    """

    def before_train(self, runner: Runner) -> None:
        model = bare(runner.model)
        if not hasattr(model, 'follow'):
            raise ValueError(
                f'MomentumHook: {type(model).__name__} has no key encoder that could follow; it '
                'goes with a MomentumRetriever (as the whole model, not as a member of one)'
            )

        def follow(*_: Any) -> None:
            model.follow()

        self._handle = runner.optim_wrapper.optimizer.register_step_post_hook(follow)

    def after_train(self, runner: Runner) -> None:
        self._handle.remove()
