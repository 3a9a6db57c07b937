"""Facts of the training that a runner carries out, read from its built components."""

from __future__ import annotations

import math
import subprocess
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import mmengine
import torch
from mmengine.dist import get_world_size
from mmengine.optim import OptimWrapper, OptimWrapperDict
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmvtr.engine.loops.facts import Choice, Training, since_resumed
from mmvtr.engine.loops.protocol import frames_from, in_words

SHORT = dict(float32='fp32', bfloat16='bf16', float16='fp16')


def state_trainings(runner: Runner, trainings: Sequence[Training]) -> None:
    """Set the trainings of the tested weights for a runner's results; [] = none."""
    runner.message_hub.update_info('trainings', [*trainings], resumed=False)


def state_choice(runner: Runner, choices: Sequence[Optional[Choice]]) -> None:
    """Record how the tested checkpoints were chosen, for the protocol line."""
    sets = {choice and choice.on for choice in choices}
    stated = 'test' if 'test' in sets else 'val' if sets == {'val'} else None
    runner.message_hub.update_info('chosen_on', stated)
    by = {choice.by for choice in choices if choice}
    runner.message_hub.update_info('chosen_by', by.pop() if len(by) == 1 else None)


def trainings_in(runner: Runner) -> list[Training]:
    """Return the trainings of a runner's weights: the stated ones, or else its own."""
    stated = runner.message_hub.get_info('trainings')
    if stated is not None:
        return stated
    return [facts_of_run(runner)] if wrappers_of(getattr(runner, 'optim_wrapper', None)) else []


def facts_of_run(runner: Runner) -> Training:
    """Return the facts of the training that a runner carries out; its optimizer must be built.

    A runner that resumes a training has the facts of its checkpoint in ``trained_before``.
    """
    loader, loop = runner.train_dataloader, runner.train_loop
    cfg = runner.cfg.get('train_dataloader') or {}
    dataset = getattr(loader, 'dataset', None)
    protocol = dataset.protocol() if hasattr(dataset, 'protocol') else {}
    size = loader.batch_size or getattr(loader.batch_sampler, 'batch_size', None)
    wrappers = wrappers_of(runner.optim_wrapper)
    environments = ((cfg.get('dataset') or {}).get('records') or {}).get('environments')
    by_epoch = isinstance(loop, EpochBasedTrainLoop)
    start = runner.cfg.get('load_from')
    found = Training(
        set=name_of_set(protocol) if protocol else type(dataset).__name__,
        ids=protocol.get('ids_sha'),
        videos=protocol.get('videos'),
        texts=protocol.get('texts'),
        epoch_unit=protocol.get('epoch_unit'),
        environments=in_words(environments) if environments else '',
        frames=_frames(cfg),
        batch=None if size is None else size * get_world_size(),
        processes=get_world_size(),
        accumulated=max(getattr(one, '_accumulative_counts', 1) for one in wrappers),
        optimizer=' and '.join(dict.fromkeys(type(one.optimizer).__name__ for one in wrappers)),
        rates=rates_of(wrappers),
        precision=' and '.join(dict.fromkeys(map(precision_of, wrappers))),
        schedule=_schedule(runner),
        epochs=loop.max_epochs if by_epoch else None,
        steps=loop.max_iters,
        done=runner.epoch if by_epoch else None,
        seed=runner.seed,
        start=Path(start).name if start and not runner.cfg.get('resume') else '',
        commit=commit_of(Path.cwd()),
        versions=_versions(),
    )
    before = getattr(runner, 'trained_before', None)
    return found if before is None else since_resumed(before, found)


def name_of_set(protocol: Mapping[str, Any]) -> str:
    """Return a name like 'MSRVTTDataset 1kA_train9k' from a dataset's ``protocol``."""
    parts = (
        protocol.get('dataset'),
        protocol.get('split'),
        protocol.get('corpus'),
        protocol.get('table'),
    )
    return ' '.join(filter(None, parts))


def wrappers_of(wrapper: Any) -> list[OptimWrapper]:
    """Return the optimizer wrappers of a training, one or several; none if it is not built."""
    if isinstance(wrapper, OptimWrapperDict):
        return list(wrapper.values())
    return [wrapper] if isinstance(wrapper, OptimWrapper) else []


def rates_of(wrappers: Sequence[OptimWrapper]) -> list[list]:
    """Return [learning rate, parameters] of all groups that share a rate, before any schedule."""
    counts: dict[float, int] = {}
    for wrapper in wrappers:
        for group in wrapper.optimizer.param_groups:
            rate = float(group.get('initial_lr', group.get('lr', math.nan)))
            counts[rate] = counts.get(rate, 0) + len(group['params'])
    return [[rate, count] for rate, count in counts.items()]


def precision_of(wrapper: OptimWrapper) -> str:
    """Return 'fp32', 'bf16' or 'fp16', the precision of a wrapper's forward pass."""
    kind = type(wrapper).__name__
    default = dict(AutocastOptimWrapper='bfloat16', AmpOptimWrapper='float16').get(kind, 'float32')
    dtype = getattr(wrapper, 'cast_dtype', None) or default
    return SHORT.get(str(dtype).removeprefix('torch.'), str(dtype))


def _frames(loader: Mapping[str, Any]) -> Optional[str]:
    steps = (loader.get('dataset') or {}).get('video_pipeline') or []
    counts = [step['num_frames'] for step in steps if hasattr(step, 'get') and 'num_frames' in step]
    source = frames_from(loader)
    return source and source + (f', {min(counts)} a video' if counts else '')


def _schedule(runner: Runner) -> str:
    """Return e.g. 'LinearLR 0-7, CosineAnnealingLR 7-70 iterations', or 'constant' without any."""
    built = runner.param_schedulers or []
    listed = [one for own in built.values() for one in own] if isinstance(built, dict) else built
    parts = []
    for one in listed:
        last = runner.max_epochs if one.by_epoch else runner.max_iters
        unit = 'epochs' if one.by_epoch else 'iterations'
        parts.append(f'{type(one).__name__} {one.begin}-{min(one.end, last)} {unit}')
    return ', '.join(parts) or 'constant'


@cache
def _versions() -> dict[str, str]:
    package = import_module('mmvtr')
    own, home = package.__version__, Path(package.__file__)
    if _git(home.parent, 'ls-files', '--error-unmatch', home.name) is not None:
        own = f'{own} ({commit_of(home.parent)})'
    return dict(mmvtr=own, torch=str(torch.__version__), mmengine=mmengine.__version__)


@cache
def commit_of(folder: Path) -> str:
    """Return 12 digits of a folder's commit, followed by '+' if files differ; '' = no repository.

    Cached per process: later commits do not change it.
    """
    found = _git(folder, 'rev-parse', '--short=12', 'HEAD')
    if found is None:
        return ''
    return found + ('+' if _git(folder, 'status', '--porcelain', '-uno') else '')


def _git(folder: Path, *words: str) -> Optional[str]:
    try:
        done = subprocess.run(
            ['git', '-C', str(folder), *words], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
