"""Facts of the training that a runner carries out, read from its built components."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import mmengine
import torch
from mmengine.dist import get_world_size
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmvtr.engine.loops.checkpoint import data_order
from mmvtr.engine.loops.facts import Choice, Training, since_resumed
from mmvtr.engine.loops.protocol import component_in_words, frames_from
from mmvtr.engine.optim_wrappers import precision_of, rates_of, wrappers_of
from mmvtr.engine.schedulers import schedulers_of


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
    order, wrappers = data_order(runner), wrappers_of(runner.optim_wrapper)
    environments = ((cfg.get('dataset') or {}).get('records') or {}).get('environments')
    by_epoch = isinstance(loop, EpochBasedTrainLoop)
    start = runner.cfg.get('load_from')
    facts = Training(
        set=name_of_set(protocol) if protocol else type(dataset).__name__,
        ids=protocol.get('ids_sha'),
        videos=protocol.get('videos'),
        texts=protocol.get('texts'),
        epoch_unit=protocol.get('epoch_unit'),
        environments=component_in_words(environments) if environments else '',
        frames=_frames(cfg),
        batch=order['joint_batch'] or None,
        processes=get_world_size(),
        accumulated=order['accumulated'],
        optimizer=' and '.join(
            dict.fromkeys(type(wrapper.optimizer).__name__ for wrapper in wrappers)
        ),
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
    return facts if before is None else since_resumed(before, facts)


def name_of_set(protocol: Mapping[str, Any]) -> str:
    """Return a name like 'MSRVTTDataset 1kA_train9k' from a dataset's ``protocol``."""
    parts = (
        protocol.get('dataset'),
        protocol.get('split'),
        protocol.get('corpus'),
        protocol.get('table'),
    )
    return ' '.join(filter(None, parts))


def tested_of(
    protocol: Mapping[str, Any], texts: Optional[int], videos: Optional[int]
) -> dict[str, Any]:
    """Return what was tested, as results state it, from a dataset's ``protocol`` and the counts."""
    return dict(set=name_of_set(protocol), ids=protocol.get('ids_sha'), texts=texts, videos=videos)


def _frames(loader: Mapping[str, Any]) -> Optional[str]:
    steps = (loader.get('dataset') or {}).get('video_pipeline') or []
    counts = [step['num_frames'] for step in steps if hasattr(step, 'get') and 'num_frames' in step]
    source = frames_from(loader)
    return source and source + (f', {min(counts)} a video' if counts else '')


def _schedule(runner: Runner) -> str:
    """Return e.g. 'LinearLR 0-7, CosineAnnealingLR 7-70 iterations', or 'constant' without any."""
    parts = []
    for scheduler in schedulers_of(runner):
        last = runner.max_epochs if scheduler.by_epoch else runner.max_iters
        unit = 'epochs' if scheduler.by_epoch else 'iterations'
        kind, end = type(scheduler).__name__, min(scheduler.end, last)
        parts.append(f'{kind} {scheduler.begin}-{end} {unit}')
    return ', '.join(parts) or 'constant'


@cache
def _versions() -> dict[str, str]:
    package = import_module('mmvtr')
    version, home = package.__version__, Path(package.__file__)
    if _git(home.parent, 'ls-files', '--error-unmatch', home.name) is not None:
        version = f'{version} ({commit_of(home.parent)})'
    return dict(mmvtr=version, torch=str(torch.__version__), mmengine=mmengine.__version__)


@cache
def commit_of(folder: Path) -> str:
    """Return 12 digits of a folder's commit, followed by '+' if files differ; '' = no repository.

    Cached per process: later commits do not change it.
    """
    digits = _git(folder, 'rev-parse', '--short=12', 'HEAD')
    if digits is None:
        return ''
    return digits + ('+' if _git(folder, 'status', '--porcelain', '-uno') else '')


def _git(folder: Path, *words: str) -> Optional[str]:
    try:
        done = subprocess.run(
            ['git', '-C', str(folder), *words], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
