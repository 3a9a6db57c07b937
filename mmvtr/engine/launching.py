"""Set-up around a Runner for the command-line tools: processes, data, the folder's lock."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence, Union

import torch
import torch.distributed as dist
from mmengine.config import Config
from mmengine.dist import broadcast_object_list, init_dist, is_main_process
from mmengine.registry import init_default_scope
from mmengine.utils.dl_utils import set_multi_processing
from torch.utils.data import Dataset

from mmvtr.cli.errors import USER_ERRORS, message_of
from mmvtr.cli.options import check_writable
from mmvtr.errors import AlreadyReported, UserError
from mmvtr.registry import DATASETS, MODEL_WRAPPERS, bare_name
from mmvtr.storage import FolderLock

LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def start_processes(cfg: Config, launcher: str) -> None:
    """Join the process group of ``launcher``: on CUDA as mmengine does, else over gloo.

    mmengine needs a GPU in both its initialisation and its model wrapper; so on a CPU the group is
    created here and ``cfg.model_wrapper_cfg`` is set.

    Args:
        cfg: its ``launcher`` is set.
        launcher: 'none', 'pytorch' (torchrun), and on CUDA 'slurm' or 'mpi'.

    Raises:
        UserError: a launcher that does not work without CUDA.
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
        raise UserError(f'--launcher {launcher} needs CUDA; a CPU needs pytorch (torchrun)')
    dist.init_process_group('gloo')
    defaults = dict(
        type='MMDistributedDataParallel',
        broadcast_buffers=False,
        find_unused_parameters=cfg.get('find_unused_parameters', False),
    )
    cfg.model_wrapper_cfg = {**defaults, **wrapper, 'device_ids': None}


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

    ``made_by`` of the config is a command that makes its data in the current folder, which the
    error names.

    Returns:
        The datasets, by the names of their loaders.

    Raises:
        UserError: names the dataset that cannot be built, with the reason.
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
        except USER_ERRORS as error:
            made_by = cfg.get('made_by') if isinstance(error, FileNotFoundError) else None
            raise UserError(
                f'{loader}.dataset of {cfg.filename} cannot be built:\n'
                f'{message_of(error).sentence}'
                + (f'\nthis makes them{_from_here(made_by)}' if made_by else '')
            ) from error
    return built


def _from_here(command: str) -> str:
    """Return ': COMMAND', with the whole path of its script, if a checkout with it is here."""
    checkout = Path(__file__).resolve().parents[2]
    words = command.split()
    here = [str(checkout / word) if (checkout / word).is_file() else word for word in words]
    return f'{", with a checkout of mmvtr" if here == words else ""}: {" ".join(here)}'


@contextmanager
def claim(work_dir: Union[str, Path]) -> Iterator[FolderLock]:
    """Hold the folder's training lock from before the folder is read until the end.

    The main process holds the lock for all processes.

    Raises:
        UserError: another training uses that folder (names it), or the folder is not writable.
    """
    lock, refusal = FolderLock(work_dir), None
    if is_main_process():
        try:
            check_writable(work_dir)
            note = lock.take()
            if note:
                print(note, file=sys.stderr, flush=True)
        except UserError as error:  # FolderInUse is one
            refusal = str(error)
        except OSError as error:
            refusal = f'work_dir {work_dir}: {error.strerror or error}'
    refusals = [refusal]
    broadcast_object_list(refusals)
    if refusals[0] is not None:
        error = UserError if is_main_process() else AlreadyReported  # alone each is a main one
        stop_processes()
        raise error(refusals[0])
    with lock:
        yield lock
