"""Hooks of every training: reproducible random numbers, and a count of broken videos."""

from __future__ import annotations

import random
from typing import Any, Optional, Sequence

import numpy as np
import torch
from mmengine.dist import all_gather_object, get_rank
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.hints import option
from mmvtr.registry import HOOKS


@HOOKS.register_module()
class ExactSeedHook(Hook):
    """Makes a step's randomness a function of (seed, step, rank) and an evaluation's constant.

    Seeds python, numpy and torch before every training step and every evaluated batch.  What
    happened before (a validation, another logging interval, a kill and a resume) then leaves no
    trace in what follows, and testing a checkpoint repeats what was seen when it was made.
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
    """Seed python's, numpy's and torch's generators (CUDA too) from non-negative integers."""
    seeds = np.random.SeedSequence(key).generate_state(3).tolist()
    random.seed(seeds[0])
    np.random.seed(seeds[1])
    # torch.manual_seed does the same, but formats a stack trace where CUDA is not in use.
    torch.default_generator.manual_seed(seeds[2])
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seeds[2])


@HOOKS.register_module()
class ProgressHook(Hook):
    """Passes the training's progress to the model, so that ramps fit any batch and schedule.

    Sets ``progress``, in [0, 1), of every part of the model (supervision, losses) that has it.
    """

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Optional[dict] = None
    ) -> None:
        for module in runner.model.modules():
            if hasattr(module, 'progress'):
                module.progress = runner.iter / runner.max_iters


@HOOKS.register_module()
class BrokenVideoHook(Hook):
    """Counts the videos that a training with ``on_broken='skip'`` has skipped.

    Every name is logged once with its reason, and each epoch ends with its total over all ranks.
    Reads ``data_batch['data_samples']``: ``broken`` (list of (video_id, reason)) and ``text_idx``.

    Videos that the dataset was told of (``on_broken=dict(skip=FILE)``, its ``known_broken``) are no
    surprise: they are counted apart, and not towards ``max_share``.

    Args:
        max_share: an epoch that skips more than this share of its other items ends the training
            (after its checkpoint is saved).

    Raises:
        RuntimeError: more than ``max_share`` of an epoch's items were skipped.
    """

    priority = 'LOWEST'

    def __init__(self, *, max_share: float = 0.1) -> None:
        if not 0 <= max_share <= 1:
            raise ValueError(f'BrokenVideoHook: max_share must be in [0, 1], got {max_share}')
        self.max_share = max_share
        self._logged: set[str] = set()
        self._broken: list[tuple[str, str]] = []
        self._items = self._listed = 0

    def before_train_epoch(self, runner: Runner) -> None:
        self._broken, self._items, self._listed = [], 0, 0

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Optional[dict] = None
    ) -> None:
        samples = data_batch['data_samples']
        listed = getattr(runner.train_dataloader.dataset, 'known_broken', {})
        broken = [one for one in samples['broken'] if one[0] not in listed]
        self._log(runner, broken)
        self._broken += broken
        self._items += len(broken) + len(samples['text_idx'])
        self._listed += len(samples['broken']) - len(broken)

    def after_train_epoch(self, runner: Runner) -> None:
        ranks = all_gather_object((self._broken, self._items, self._listed))
        broken = [video for part, _, _ in ranks for video in part]
        self._log(runner, broken)
        items, listed = (sum(rank[i] for rank in ranks) for i in (1, 2))
        if not broken and not listed:
            return
        message = (
            f'epoch {runner.epoch + 1}: {len(broken)} of {items} items skipped, '
            f'{len(set(name for name, _ in broken))} broken videos'
        )
        apart = f', beside {listed} items of videos that on_broken lists' if listed else ''
        runner.logger.warning(message + apart)
        if len(broken) > self.max_share * items:
            prefix = getattr(runner.train_dataloader.dataset, 'key_prefix', '')
            listing = option('on_broken.skip', 'broken_videos.txt', prefix=prefix)
            more = option('max_share', 0.5, prefix='default_hooks.broken.')
            raise RuntimeError(
                f'{message}; BrokenVideoHook.max_share is {self.max_share}: see what is broken '
                f'(check_dataset --decode) and list it ({listing}), or allow more ({more})'
            )

    def _log(self, runner: Runner, broken: Sequence[tuple[str, str]]) -> None:
        for name, reason in broken:
            if name not in self._logged:
                self._logged.add(name)
                runner.logger.warning(f'skipped broken video {name}: {reason}')
