"""Set-up around a Runner for the command-line tools: processes, data, weights."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence, Union

import torch
import torch.distributed as dist
from mmengine.config import Config
from mmengine.dist import broadcast_object_list, get_world_size, init_dist, is_main_process
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from mmengine.utils.dl_utils import set_multi_processing
from torch import nn
from torch.utils.data import Dataset

from mmvtr.cli.errors import MEANT, said_of
from mmvtr.engine.loops.checkpoint import (
    check_weights,
    data_order,
    groups_in,
    latest_checkpoint,
    pointed_checkpoint,
    read_checkpoint,
)
from mmvtr.engine.loops.evaluation import bare
from mmvtr.engine.loops.facts import Choice, choice_of, trainings_of
from mmvtr.engine.loops.facts_of_run import state_trainings
from mmvtr.engine.loops.resume_rules import RESCALED
from mmvtr.engine.loops.resuming import changes_since, refusal
from mmvtr.registry import DATASETS, MODEL_WRAPPERS, bare_name
from mmvtr.storage import FolderInUse, FolderLock

LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def start_processes(cfg: Config, launcher: str) -> None:
    """Join the process group of ``launcher``: on CUDA as mmengine does, else over gloo.

    mmengine needs a GPU in both its initialisation and its model wrapper; so on a CPU the group is
    created here and ``cfg.model_wrapper_cfg`` is set.

    Args:
        cfg: its ``launcher`` is set.
        launcher: 'none', 'pytorch' (torchrun), and on CUDA 'slurm' or 'mpi'.

    Raises:
        SystemExit: a launcher that does not work without CUDA.
    """
    cfg.launcher = launcher
    if launcher == 'none':
        return
    # torch 2.14 has renamed a function that mmengine calls, and warns in each process.
    warnings.filterwarnings('ignore', '`broadcast_buffers` is deprecated', FutureWarning)
    env = cfg.get('env_cfg', {})
    set_multi_processing(**env.get('mp_cfg', {}), distributed=True)
    wrapper = dict(cfg.get('model_wrapper_cfg') or {})
    if wrapper:  # mmengine looks up the name in its own registry only
        ours = bare_name(wrapper) in MODEL_WRAPPERS.module_dict
        if ours:
            wrapper['type'] = f'mmvtr.{bare_name(wrapper)}'
        wrapper.setdefault('find_unused_parameters', cfg.get('find_unused_parameters', False))
        cfg.model_wrapper_cfg = wrapper
    if torch.cuda.is_available():
        init_dist(launcher, **env.get('dist_cfg', {}))
        return
    if launcher != 'pytorch':
        raise SystemExit(f'error: --launcher {launcher} needs CUDA; a CPU needs pytorch (torchrun)')
    dist.init_process_group('gloo')
    own = dict(
        type='MMDistributedDataParallel',
        broadcast_buffers=False,
        find_unused_parameters=cfg.get('find_unused_parameters', False),
    )
    cfg.model_wrapper_cfg = {**own, **wrapper, 'device_ids': None}


def stop_processes() -> None:
    """Leave the process group together, since a process that exits early can abort the others."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def pin_memory(cfg: Config) -> None:
    """Enable pinned memory for batches if there is a GPU.

    A loader that states its own ``pin_memory`` keeps it.
    """
    for loader in filter(cfg.get, LOADERS):
        if torch.cuda.is_available():
            cfg[loader].setdefault('pin_memory', True)


def check_datasets(cfg: Config, loaders: Sequence[str] = LOADERS) -> dict[str, Dataset]:
    """Build each dataset of ``cfg``, so that bad data stop a run before it starts.

    Returns:
        The datasets, by the names of their loaders.

    Raises:
        SystemExit: names the dataset that cannot be built, with the reason.
    """
    init_default_scope(cfg.get('default_scope', 'mmengine'))
    built = {}
    for loader in filter(cfg.get, loaders):
        try:
            built[loader] = DATASETS.build(cfg[loader]['dataset'])
            if hasattr(built[loader], 'full_init'):  # mmengine's own datasets
                built[loader].full_init()
            if not len(built[loader]):
                raise ValueError('it has no item: no video that has a text')
        except MEANT as error:
            raise SystemExit(
                f'error: {loader}.dataset of {cfg.filename} cannot be built:\n'
                f'{said_of(error).sentence}'
            ) from error
    return built


@contextmanager
def claim(work_dir: Union[str, Path]) -> Iterator[FolderLock]:
    """Hold the folder's training lock from before the folder is read until the end.

    The main process holds the lock for all processes.

    Raises:
        SystemExit: another training uses that folder (names it), or the folder is not writable.
    """
    lock, refusal = FolderLock(work_dir), None
    if is_main_process():
        try:
            note = lock.take()
            if note:
                print(note, file=sys.stderr, flush=True)
        except FolderInUse as error:
            refusal = f'error: {error}'
        except OSError as error:
            refusal = f'error: work_dir {work_dir}: {error.strerror or error}'
    refusals = [refusal]
    broadcast_object_list(refusals)
    if refusals[0] is not None:
        status = refusals[0] if is_main_process() else 1  # alone each is a main one
        stop_processes()
        raise SystemExit(status)
    with lock:
        yield lock


def resume(cfg: Config, path: str, *, seed: Optional[int] = None) -> None:
    """Set ``cfg`` to continue a training.

    Args:
        cfg: its ``resume``, ``load_from`` and ``randomness`` are set.
        path: a checkpoint, or 'auto' for the newest one in ``cfg.work_dir``; if there is none yet,
            a new training starts.
        seed: the seed the user wants; it must be that of the checkpoint, because the order of the
            data depends on it.

    Raises:
        FileNotFoundError, RuntimeError, ValueError: no such checkpoint, or a damaged one.
        SystemExit: one of another seed, or one with weights but without training state.
    """
    found = latest_checkpoint(cfg.work_dir) if path == 'auto' else path
    if found is None:
        cfg.resume = False
        return
    pointed = pointed_checkpoint(cfg.work_dir) if path == 'auto' else None
    if pointed is not None and pointed.is_file() and not pointed.samefile(found):
        _say(f'resumed from {found}; last_checkpoint names {pointed}, of the run that was copied')
    checkpoint = read_checkpoint(found)
    missing = [name for name in _needed(cfg) if not _holds(checkpoint, name)]
    if missing:
        raise SystemExit(
            f'error: {found} cannot be resumed: it holds no {", no ".join(missing)}.{anew(found)}'
        )
    trained = checkpoint['meta'].get('seed')
    if seed is not None and trained is not None and seed != trained:
        raise SystemExit(f'error: {found} was trained with seed {trained}, not {seed}')
    if trained is not None:
        own = (cfg.get('randomness') or {}).get('seed')
        if seed is None and own not in (None, trained):
            _say(
                f'randomness.seed={own} of the config: {found} was trained with {trained}, '
                'which stays'
            )
        cfg.merge_from_dict({'randomness.seed': trained})
    cfg.load_from, cfg.resume = found, True


def _say(message: str) -> None:
    """Print a line before the logger exists, once for all processes."""
    if is_main_process():
        print(message, file=sys.stderr, flush=True)


def _needed(cfg: Config) -> list[str]:
    """Return the names of the state that a training needs to be resumed."""
    schedule = ['param_schedulers'] if cfg.get('param_scheduler') else []
    own = [f'meta.{name}' for name in ('epoch', 'iter', 'order', 'groups', 'values')]
    return [*own, 'message_hub', 'optimizer.param_groups', *schedule]


def _holds(content: Any, name: str) -> bool:
    for key in name.split('.'):
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True


def anew(path: Union[str, Path]) -> str:
    """Return a hint for an error: what a checkpoint without training state can be used for."""
    return f' Its weights can start a new training: --cfg-options load_from={path}'


def load_best(runner: Runner, path: Union[str, Path]) -> None:
    """Load the weights of the best checkpoint into the model after a training.

    Raises:
        FileNotFoundError, RuntimeError: the file is missing or damaged.
    """
    checkpoint = read_checkpoint(path)
    # An EMAHook would treat it as a training to resume; state_dict has the averaged weights.
    checkpoint.pop('ema_state_dict', None)
    runner._resume = False  # it would miss them after a resumed training
    runner.call_hook('after_load_checkpoint', checkpoint=checkpoint)
    bare(runner.model).load_state_dict(checkpoint['state_dict'])
    choice = choice_of(checkpoint)
    state_choice(runner, [choice])
    state_trainings(runner, trainings_of(checkpoint, path))
    runner.logger.info(f'Testing the weights of {path}')
    if choice is not None:
        runner.logger.info(f'chosen by {choice.in_words()}')


def state_choice(runner: Runner, choices: Sequence[Optional[Choice]]) -> None:
    """Record how the tested checkpoints were chosen, for the protocol line."""
    sets = {choice and choice.on for choice in choices}
    stated = 'test' if 'test' in sets else 'val' if sets == {'val'} else None
    runner.message_hub.update_info('chosen_on', stated)
    by = {choice.by for choice in choices if choice}
    runner.message_hub.update_info('chosen_by', by.pop() if len(by) == 1 else None)


def read_matching(model: nn.Module, path: Union[str, Path]) -> dict[str, Any]:
    """Return a checkpoint that must fit ``model``, which may have a distributed wrapper.

    Raises:
        FileNotFoundError, RuntimeError: no such file, a damaged one, or one of another model (names
            what differs).
    """
    checkpoint = read_checkpoint(path)
    weights = check_weights(bare(model), checkpoint['state_dict'], path)
    return {**checkpoint, 'state_dict': weights}


def check_order(runner: Runner, checkpoint: dict[str, Any], path: Union[str, Path]) -> None:
    """Raise unless a resumed training gets its data in the order of an uninterrupted one.

    The same joint batch over another number of processes is accepted, with a log message about the
    difference; so are as many other items, or the same ones in another order.

    Raises:
        SystemExit: other numbers of items, of items in a joint batch, or of batches per step.
    """
    meta, own = checkpoint['meta'], data_order(runner)
    trained = meta['order']
    if own != trained:
        orders = [
            ', '.join(f'{value:g} {name.replace("_", " ")}' for name, value in order.items())
            for order in (trained, own)
        ]
        raise SystemExit(
            f'error: {path} cannot be resumed: it was trained with {orders[0]}, this run has '
            f'{orders[1]}, so that the data would come in another order.{anew(path)}'
        )
    (training,) = trainings_of(checkpoint, path)
    dataset = runner.train_dataloader.dataset
    ids = dataset.protocol().get('ids_sha') if hasattr(dataset, 'protocol') else None
    if training.ids is not None and ids not in (None, training.ids):
        runner.logger.warning(
            f'the training set has other ids, or the same in another order (hash {ids}), than that '
            f'of {path} ({training.ids}): from here on other items are trained'
        )
    before, now = meta.get('processes'), get_world_size()
    if before not in (None, now):
        runner.logger.warning(
            f'{path} was trained by {processes(before)}, this run has {processes(now)}: the joint '
            'batches are the same, but each process draws random numbers of its own (dropout, '
            'frames) and sums are rounded in another order. The end will not be exactly that of '
            'an uninterrupted run'
        )


def processes(count: int) -> str:
    """Return a count in words, '1 process', '2 processes'."""
    return '1 process' if count == 1 else f'{count} processes'


def check_optimizer(runner: Runner, checkpoint: dict[str, Any], path: Union[str, Path]) -> None:
    """Raise unless a training can be resumed with a checkpoint's optimizer state.

    The config determines which parameters share a learning rate and a weight decay: with another
    ``optim_wrapper.constructor`` or ``paramwise_cfg`` the stored moments no longer fit.

    Raises:
        SystemExit: its parameter groups are not those of ``runner``'s config.
    """
    runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    own, stored = (
        [len(group['params']) for group in optimizer['param_groups']]
        for optimizer in (runner.optim_wrapper.state_dict(), checkpoint['optimizer'])
    )
    if own != stored:
        raise SystemExit(
            f'error: {path} cannot be resumed: its optimizer has {len(stored)} groups of '
            f'{sum(stored)} parameters, that of this config {len(own)} of {sum(own)} (another '
            f'optim_wrapper.constructor or paramwise_cfg).{anew(path)}'
        )
    pairs = zip(chain(*checkpoint['meta']['groups']), chain(*groups_in(runner)))
    other = next((f'{now} in the place of {before}' for before, now in pairs if now != before), '')
    if other:
        raise SystemExit(
            f'error: {path} cannot be resumed: the groups of its optimizer hold other parameters, '
            f'{other} (another optim_wrapper.constructor or paramwise_cfg).{anew(path)}'
        )


def check_changes(runner: Runner, checkpoint: dict[str, Any], path: Union[str, Path]) -> bool:
    """Raise unless a training can be resumed with its config; log the differences from before.

    Call it after the optimizer has been built.

    Returns:
        Whether rates and schedule are taken from the config (:meth:`.ToolRunner.resume`).

    Raises:
        SystemExit: it cannot; names the value.
        ValueError: the checkpoint's values are not a dict.
    """
    found = changes_since(runner, checkpoint, path)
    why = refusal(runner, found, checkpoint)
    if why is not None:
        raise SystemExit(f'error: {path} cannot be resumed: {why}.{anew(path)}')
    for change in found:
        runner.logger.info(f'resumed with another value: {change}')
    return any(change.rule.action == RESCALED for change in found)
