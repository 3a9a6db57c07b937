"""Checkpoints that any ``torch.load`` can read and that survive a kill, and exact resuming.

A run that is killed at any moment and resumed has the same result as an uninterrupted one: files
change atomically, the newest is complete before an older one is removed, and a validation that may
have been interrupted is repeated before training continues.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, BinaryIO, Optional, Union

import numpy as np
import torch
from mmengine.dist import get_world_size, is_main_process
from mmengine.fileio import LocalBackend, register_backend
from mmengine.hooks import CheckpointHook
from mmengine.logging import print_log
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch import Tensor

from mmvtr.engine.loops.checkpoint import (
    data_order,
    groups_in,
    latest_checkpoint,
    random_states,
    set_random_states,
)
from mmvtr.engine.loops.earlier_runs import Past, make_room
from mmvtr.engine.loops.evaluation_loop import on_rank_0
from mmvtr.engine.loops.facts import BEST, Choice
from mmvtr.engine.loops.facts_of_run import facts_of_run
from mmvtr.engine.loops.resume_rules import values_of
from mmvtr.engine.optim_wrappers import wrappers_of
from mmvtr.errors import UnknownKey
from mmvtr.registry import HOOKS
from mmvtr.storage import leftovers, seal, write_atomically
from mmvtr.storage.reader import ZIP

_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


class AtomicBackend(LocalBackend):
    """mmengine's local file backend that writes files atomically.

    Archives of ``torch.save`` get a digest (:mod:`mmvtr.storage.reader`).
    """

    def put(self, obj: bytes, filepath: Union[str, Path]) -> None:
        def write(file: BinaryIO) -> None:
            file.write(obj)
            if obj.startswith(ZIP):
                seal(file)

        write_atomically(filepath, write)

    def put_text(self, obj: str, filepath: Union[str, Path], encoding: str = 'utf-8') -> None:
        self.put(obj.encode(encoding), filepath)


register_backend('mmvtr.atomic', AtomicBackend, force=True)


@HOOKS.register_module()
class PlainCheckpointHook(CheckpointHook):
    """mmengine's CheckpointHook with checkpoints that are atomic, digest-checked and exact.

    Plain: everything in the file loads under ``weights_only=True``.  Atomic: files change
    atomically, and an outdated one is removed only after its successor and ``last_checkpoint`` are
    in place.  Exact: the Python, numpy and torch random states are stored (those of rank 0) and
    restored, and a resumed run first validates the resumed epoch if that is due and not known to
    have finished.

    A file states the facts of its training (``meta['training']``, :mod:`mmvtr.engine.loops.facts`).
    The best checkpoint is ``best.pth``, and states why it was chosen (:class:`.Choice`,
    ``meta['chosen']``); a better one replaces it when complete.  Checkpoints of another training in
    the folder are moved to its subfolders ``earlier_1``, ``earlier_2`` ... before the first step.

    Args:
        save_best: one metric key, or None.
        backend_args: backend of the files; default this machine, atomically.
        **kwargs: as for mmengine's CheckpointHook (``interval``, ``max_keep_ckpts``, ``rule``).
    """

    #: mmengine's hook would pass unknown arguments to the Runner when it saves.
    option_names = ()

    def __init__(
        self,
        *,
        save_best: Optional[str] = None,
        backend_args: Optional[dict] = None,
        **kwargs: Any,
    ) -> None:
        if not (save_best is None or isinstance(save_best, str)):
            raise ValueError(
                f'PlainCheckpointHook: save_best must be one metric key, got {save_best}'
            )
        backend_args = backend_args or dict(backend='mmvtr.atomic')
        super().__init__(save_best=save_best, backend_args=backend_args, **kwargs)
        self._random_states: Optional[dict] = None

    # -- what a checkpoint holds -----------------------------------------------------------

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        hub = checkpoint['message_hub']
        hub['log_scalars'] = {}  # HistoryBuffer pickles bound methods
        for record in (checkpoint['meta'], hub['runtime_info']):
            _drop_unplain(record)
        hub['resumed_keys'] = {
            key: value for key, value in hub['resumed_keys'].items() if key in hub['runtime_info']
        }
        checkpoint['random_states'] = random_states()
        checkpoint['meta']['order'] = data_order(runner)
        checkpoint['meta']['processes'] = get_world_size()
        checkpoint['meta']['values'] = values_of(runner.cfg.to_dict())
        checkpoint['meta']['groups'] = groups_in(runner)
        checkpoint['meta']['training'] = facts_of_run(runner).as_dict()
        for key in checkpoint:
            checkpoint[key] = plain(checkpoint[key], key)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        self._random_states = checkpoint.get('random_states')

    # -- resuming --------------------------------------------------------------------------

    def before_train(self, runner: Runner) -> None:
        super().before_train(runner)
        self._check_interval(runner)
        hub = runner.message_hub
        self._remove(hub.get_info('outdated_ckpts', []) + leftovers(self.out_dir))
        self._make_room(runner)
        if runner.iter == 0:
            return
        self.last_ckpt = hub.get_info('last_ckpt')
        if self._random_states is not None and is_main_process():
            set_random_states(self._random_states)
        if self._misses_validation(runner):
            runner.logger.info(f'Validating the resumed epoch {runner.epoch} before going on.')
            # The state of a best checkpoint is that after the epoch itself.
            hub.update_info('epoch', runner.epoch - 1)
            hub.update_info('iter', runner.iter - 1)
            runner.val_loop.run()

    def _make_room(self, runner: Runner) -> None:
        """Move all checkpoints of other trainings out of the folder."""
        if not isinstance(self.file_backend, LocalBackend):
            return
        hub, folder = runner.message_hub, Path(self.out_dir)
        arguments = folder, Path(runner.work_dir, 'last_checkpoint'), self.filename_tmpl
        has_best, notes = on_rank_0(lambda: make_room(*arguments, self._past(runner)))
        for line in notes:
            runner.logger.warning(line)
        if self.save_best is None:
            return
        self.best_ckpt_path = str(folder / BEST) if has_best else None
        if has_best:
            hub.update_info('best_ckpt', self.best_ckpt_path)
        else:
            for name in ('best_ckpt', 'best_score'):
                hub.runtime_info.pop(name, None)

    def _past(self, runner: Runner) -> Optional[Past]:
        if runner.iter == 0:
            return None
        hub, path = runner.message_hub, Path(runner._load_from or '')
        best, score = hub.get_info('best_ckpt'), hub.get_info('best_score')
        newest = latest_checkpoint(runner.work_dir)
        return Past(
            path=path,
            step=runner.epoch if self.by_epoch else runner.iter,
            newest=newest is not None and path.resolve() == Path(newest).resolve(),
            best=Path(best) if best else None,
            score=score,
        )

    def _misses_validation(self, runner: Runner) -> bool:
        loop = runner.train_loop
        if runner.val_loop is None or not self.by_epoch:
            return False
        if runner.message_hub.get_info('last_validated_epoch') == runner.epoch:
            return False
        loop._decide_current_val_interval()
        last = runner.epoch == runner.max_epochs
        return runner.epoch >= loop.val_begin and (runner.epoch % loop.val_interval == 0 or last)

    def _check_interval(self, runner: Runner) -> None:
        counts = data_order(runner)['accumulated']
        if not self.by_epoch and self.interval > 0 and self.interval % counts:
            raise ValueError(
                f'default_hooks.checkpoint.interval={self.interval}: a multiple of '
                f'optim_wrapper.accumulative_counts={counts} expected, or checkpoints would lack '
                'the gradients of the batches since the last step'
            )

    def before_train_epoch(self, runner: Runner) -> None:
        """Make an optimizer step at the end of an epoch, even if fewer batches are accumulated.

        Otherwise a checkpoint of this epoch would lack their gradients.
        """
        if isinstance(runner.train_loop, EpochBasedTrainLoop):
            for wrapper in wrappers_of(runner.optim_wrapper):
                wrapper.initialize_count_status(runner.model, 0, len(runner.train_dataloader))

    # -- saving ----------------------------------------------------------------------------

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float]) -> None:
        if not hasattr(self, 'file_backend'):  # `runner.val()` outside of a training
            return
        if self.save_best is not None:
            key = self.key_indicators[0]
            raw = key.partition('/')[2]  # without the transform, which may have been left out
            if key not in metrics and raw not in metrics:
                raise UnknownKey(
                    f'save_best={key!r} is not among the metrics of the validation: '
                    f'{", ".join(sorted(metrics))}'
                )
        runner.message_hub.update_info('last_validated_epoch', runner.epoch)
        super().after_val_epoch(runner, metrics)

    def _save_best_checkpoint(self, runner: Runner, metrics: dict[str, float]) -> None:
        """Save the best checkpoint under one name, replaced atomically."""
        if self.save_best is None:
            return
        hub, (key,), (rule,) = runner.message_hub, self.key_indicators, self.rules
        if key not in metrics:  # the set was too small for the transform, which has warned
            runner.logger.warning(
                f'{BEST} is not chosen at epoch {runner.epoch}: there is no {key}'
            )
            return
        value = metrics[key]
        if not self.is_better_than[key](
            value, hub.get_info('best_score', self.init_value_map[rule])
        ):
            return
        meta = dict(epoch=runner.epoch, iter=runner.iter)
        choice = Choice(by=key, value=plain(value, key), on=chosen_on(runner.cfg), **meta)
        self.best_ckpt_path = self.file_backend.join_path(self.out_dir, BEST)
        hub.update_info('best_score', value)
        hub.update_info('best_ckpt', self.best_ckpt_path)
        runner.save_checkpoint(
            self.out_dir,
            BEST,
            save_optimizer=False,
            save_param_scheduler=False,
            meta=dict(meta, chosen=choice._asdict()),
            by_epoch=False,
            backend_args=self.backend_args,
        )
        runner.logger.info(f'{BEST}: {choice.in_words()}')
        if self.last_ckpt is not None:  # it must also refer to the best one
            step = runner.epoch if self.by_epoch else runner.iter
            self._save_checkpoint_with_step(runner, step, meta)

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        """Write the checkpoint, point ``last_checkpoint`` to it, remove what it replaces."""
        hub, name = runner.message_hub, self.filename_tmpl.format(step)
        outdated = self._outdated(hub, step)
        self.last_ckpt = self.file_backend.join_path(self.out_dir, name)
        hub.update_info('last_ckpt', self.last_ckpt)
        # Stored, so that a run killed before removing these files removes them when resumed.
        hub.update_info('outdated_ckpts', outdated)
        runner.save_checkpoint(
            self.out_dir,
            name,
            save_optimizer=self.save_optimizer,
            save_param_scheduler=self.save_param_scheduler,
            meta=meta,
            by_epoch=self.by_epoch,
            backend_args=self.backend_args,
            **self.args,
        )
        if is_main_process():
            last = self.file_backend.join_path(runner.work_dir, 'last_checkpoint')
            self.file_backend.put_text(self.last_ckpt, last)
        self._remove(outdated)
        hub.update_info('outdated_ckpts', [])

    def _outdated(self, hub: Any, step: int) -> list[str]:
        """Return the names of the files that the checkpoint of ``step`` replaces."""
        names = []
        if self.max_keep_ckpts > 0:
            steps = [earlier for earlier in self.keep_ckpt_ids if earlier != step] + [step]
            names = [self.filename_tmpl.format(old) for old in steps[: -self.max_keep_ckpts]]
            self.keep_ckpt_ids.clear()
            self.keep_ckpt_ids.extend(steps[-self.max_keep_ckpts :])
            hub.update_info('keep_ckpt_ids', list(self.keep_ckpt_ids))
        return names

    def _remove(self, names: list[str]) -> None:
        for path in (self.file_backend.join_path(self.out_dir, name) for name in names):
            if is_main_process() and self.file_backend.isfile(path):
                self.file_backend.remove(path)


def chosen_on(cfg: Any) -> str:
    """Return the set on which a config chooses its checkpoint: 'test' or 'val'."""
    loaders = [cfg.get(f'{name}_dataloader') or {} for name in ('val', 'test')]
    same = loaders[0].get('dataset') == loaders[1].get('dataset')
    return 'test' if same else 'val'


def plain(value: Any, where: str) -> Any:
    """Return ``value`` in types that a load under ``weights_only=True`` accepts.

    numpy scalars become Python's, arrays tensors, mappings dicts.  A state_dict keeps its type (it
    carries version numbers).

    Args:
        value: nested dicts, lists, tuples of tensors, numpy values and python's simple types.
        where: name of the value, for the error.

    Raises:
        TypeError: another type; names the place.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in _PLAIN or isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, dict):
        items = {key: plain(item, f'{where}.{key}') for key, item in value.items()}
        if hasattr(value, '_metadata'):
            value.update(items)
            return value
        return items
    if type(value) in (list, tuple):
        return type(value)(plain(item, f'{where}[{i}]') for i, item in enumerate(value))
    raise TypeError(
        f'checkpoint: {where} is a {type(value).__name__}, which does not load under'
        ' weights_only=True'
    )


def _drop_unplain(record: dict) -> None:
    """Drop, with a warning, informational values that cannot be stored plainly."""
    for key in list(record):
        try:
            plain(record[key], key)
        except TypeError as error:
            print_log(f'Left out. {error}', logger='current', level=logging.WARNING)
            del record[key]
