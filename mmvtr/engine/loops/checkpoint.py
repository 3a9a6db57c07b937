"""Checkpoint files: found, read by mmengine as well, and what a resumed training needs of them."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, Optional, Union
from urllib.parse import urlsplit

import numpy as np
import torch
from mmengine.dist import get_world_size
from mmengine.runner import Runner
from mmengine.runner.checkpoint import CheckpointLoader
from torch import nn

from mmvtr.engine.loops.evaluation import bare
from mmvtr.engine.optim_wrappers import wrappers_of
from mmvtr.storage.weights import check_weights, read_checkpoint


def data_order(runner: Runner) -> dict[str, int]:
    """Return what the data order depends on besides the seed: items, and items per step.

    The runner's optimizer must have been built.
    """
    loader = runner.train_dataloader
    size = loader.batch_size or getattr(loader.batch_sampler, 'batch_size', 0)
    wrappers = wrappers_of(runner.optim_wrapper)
    return dict(
        items=len(loader.dataset),
        joint_batch=size * get_world_size(),
        accumulated=max(wrapper._accumulative_counts for wrapper in wrappers),
    )


def groups_in(runner: Runner) -> list[list[str]]:
    """Return the parameter names of each optimizer group."""
    names = {id(weight): name for name, weight in bare(runner.model).named_parameters()}
    return [
        [names.get(id(weight), '') for weight in group['params']]
        for wrapper in wrappers_of(runner.optim_wrapper)
        for group in wrapper.optimizer.param_groups
    ]


def random_states() -> dict[str, Any]:
    """Return the random states of Python, numpy and torch, as ints, floats and tensors."""
    kind, keys, *rest = np.random.get_state()
    return dict(
        python=random.getstate(),
        numpy=(kind, keys.tolist(), *rest),
        torch=torch.get_rng_state(),
        cuda=torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    )


def set_random_states(states: dict[str, Any]) -> None:
    """Restore the states from :func:`random_states` (CUDA's if this machine has as many GPUs)."""
    random.setstate(states['python'])
    kind, keys, *rest = states['numpy']
    np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states['torch'].cpu())
    if len(states['cuda']) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([state.cpu() for state in states['cuda']])


def load_from_plain_file(filename: str, map_location: Any = None) -> dict[str, Any]:
    """Return a checkpoint for mmengine's ``load_from``, ``resume`` and ``init_cfg``.

    mmengine's own loader lets torch's version and environment decide whether a checkpoint may run
    code, and runs the text of ``meta['config']``, which our checkpoints lack.
    """
    content = read_checkpoint(local_file(filename), map_location=map_location or 'cpu')
    if isinstance(content.get('meta'), dict):
        content['meta'].pop('config', None)
    return content


def read_matching(model: nn.Module, path: Union[str, Path]) -> dict[str, Any]:
    """Return a checkpoint that must fit ``model``, which may have a distributed wrapper.

    Raises:
        FileNotFoundError, RuntimeError: no such file, a damaged one, or one of another model (names
            what differs).
    """
    checkpoint = read_checkpoint(path)
    weights = check_weights(bare(model), checkpoint['state_dict'], path)
    return {**checkpoint, 'state_dict': weights}


def local_file(name: str) -> str:
    """Return a checkpoint's path; download one at a URL once, to torch.hub's folder.

    Raises:
        ValueError: a scheme other than http and https.
    """
    url = urlsplit(name)
    if '://' not in name:
        return os.path.expanduser(name)
    if url.scheme not in ('http', 'https'):
        raise ValueError(f'checkpoint {name[:200]}: download it, and give the path of the file')
    path = Path(torch.hub.get_dir(), 'checkpoints', Path(url.path).name)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(name, str(path))
    return str(path)


CheckpointLoader.register_scheme(
    prefixes=[
        *('', 'http://', 'https://', 'torchvision://', 'modelzoo://', 'open-mmlab://'),
        *('openmmlab://', 'mmcls://', 'pavi://', r'(\S+\:)?s3://', r'(\S+\:)?petrel://'),
    ],
    loader=load_from_plain_file,
    force=True,
)


def latest_checkpoint(work_dir: Union[str, Path]) -> Optional[str]:
    """Return the newest checkpoint of ``work_dir``; None if there is none.

    The file of that name in ``work_dir`` comes before the path in ``last_checkpoint``, which is of
    another folder where a run was moved or copied.

    Raises:
        ValueError: the file ``last_checkpoint`` does not hold a path.
    """
    path = pointed_checkpoint(work_dir)
    if path is None:
        return None
    beside = Path(work_dir, path.name)
    return str(beside if beside.is_file() else path)


def pointed_checkpoint(work_dir: Union[str, Path]) -> Optional[Path]:
    """Return the path in the file ``last_checkpoint``; None if there is no such file.

    Raises:
        ValueError: the file does not hold a path.
    """
    pointer = Path(work_dir, 'last_checkpoint')
    if not pointer.is_file():
        return None
    raw = pointer.read_bytes()
    text = raw.decode(errors='replace').strip()
    if not text or not text.isprintable() or '\ufffd' in text or len(text) > 4096:
        raise ValueError(
            f'{pointer} is damaged: expected the path of a checkpoint, found {raw[:80]!r}; '
            'name the checkpoint to resume from'
        )
    return Path(text)
