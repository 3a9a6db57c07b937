"""Hook that counts the broken videos that a training skips."""

from __future__ import annotations

from typing import Optional, Sequence

from mmengine.dist import all_gather_object
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.cli.hints import option
from mmvtr.errors import UserError
from mmvtr.functional.values import check_range
from mmvtr.registry import HOOKS


@HOOKS.register_module()
class BrokenVideoHook(Hook):
    """Hook that counts the videos that a training with ``on_broken='skip'`` has skipped.

    Every name is logged once with its reason, and each epoch's total over all ranks at its end.
    Reads ``data_batch['data_samples']``: ``broken`` (list of (video_id, reason)) and ``text_idx``.

    Videos that are known to be broken (``on_broken=dict(skip=FILE)``, the dataset's
    ``known_broken``) are counted separately, and not towards ``max_share``.

    Args:
        max_share: an epoch that skips more than this share of its other items ends the training
            (after its checkpoint is saved).

    Raises:
        RuntimeError: more than ``max_share`` of an epoch's items were skipped.
    """

    priority = 'LOWEST'

    def __init__(self, *, max_share: float = 0.1) -> None:
        check_range('[0, 1]', **{'BrokenVideoHook.max_share': max_share})
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
        broken = [video for video in samples['broken'] if video[0] not in listed]
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
            raise UserError(
                f'{message}; BrokenVideoHook.max_share is {self.max_share}: see what is broken '
                f'(check_dataset --decode) and list it ({listing}), or allow more ({more})'
            )

    def _log(self, runner: Runner, broken: Sequence[tuple[str, str]]) -> None:
        for name, reason in broken:
            if name not in self._logged:
                self._logged.add(name)
                runner.logger.warning(f'skipped broken video {name}: {reason}')
