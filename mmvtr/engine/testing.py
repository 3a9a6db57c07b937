"""Construction of a runner that tests a config with one, several or no checkpoints."""

from __future__ import annotations

from typing import Optional, Sequence, Union

from mmengine.config import Config

from mmvtr.engine import launching
from mmvtr.engine.checks.zero_shot import admit_random, state_zero_shot
from mmvtr.engine.hooks.members import fuse_config
from mmvtr.engine.loops.checkpoint import local_file, read_matching
from mmvtr.engine.loops.evaluation import bare
from mmvtr.engine.loops.facts import Choice, Training, choice_of, trainings_of
from mmvtr.engine.loops.facts_of_run import state_choice, state_trainings
from mmvtr.engine.runner import ToolTestRunner
from mmvtr.errors import UserError
from mmvtr.registry import forget_pretrained
from mmvtr.storage.weights import read_checkpoint


def checkpoints_of(cfg: Config, paths: Sequence[str]) -> list[str]:
    """Return the checkpoints to test: those that are given, else the config's ``load_from``.

    Raises:
        UserError: ``load_from_prefixes`` takes a part of it, which cannot be tested.
    """
    if paths or cfg.get('load_from') is None:
        return list(paths)
    if cfg.get('load_from_prefixes'):
        raise UserError(
            f'{cfg.filename} starts from a part of {cfg.load_from} (load_from_prefixes): give the '
            'CHECKPOINT of its training'
        )
    return [local_file(cfg.load_from)]


def runner_of_test(
    cfg: Config,
    checkpoints: Sequence[str],
    *,
    fusion: Union[str, Sequence[float]] = 'sum',
    random: bool = False,
    launcher: str = 'none',
) -> ToolTestRunner:
    """Return a runner whose ``test()`` uses these weights, with checked data and model.

    Args:
        cfg: changed in place: its weights and seed, and its model for several checkpoints.
        checkpoints: files of the same model; none: as the config builds it.
        fusion: fusion of several, see :func:`~mmvtr.engine.hooks.members.fuse_config`.
        random: whether parts of a model without a checkpoint may be random.
        launcher: see :func:`~mmvtr.engine.launching.start_processes`.

    Raises:
        FileNotFoundError, RuntimeError: a checkpoint that cannot be read or is of another model.
        UserError: missing data, or random weights without ``random``.
        ValueError: another fusion.
    """
    seeds, choices, trainings_of_each = (
        zip(*map(_origin, checkpoints)) if checkpoints else ((), (), ())
    )
    if seeds and seeds[0] is not None:
        cfg.merge_from_dict({'randomness.seed': seeds[0]})
    cfg.load_from, cfg.resume = checkpoints[0] if len(seeds) == 1 else None, False
    if len(seeds) > 1:
        origins = [
            path if seed is None else f'{path} (seed {seed})'
            for path, seed in zip(checkpoints, seeds)
        ]
        fuse_config(cfg, origins, fusion)
    if seeds:
        forget_pretrained(cfg.model)
    elif random:
        admit_random(cfg.model)
    launching.start_processes(cfg, launcher)
    launching.pin_memory(cfg)
    runner = ToolTestRunner.from_cfg(cfg)
    if not seeds:
        state_zero_shot(runner, random=random)
    elif len(seeds) == 1:
        read_matching(runner.model, checkpoints[0])
    else:
        for member, path in zip(bare(runner.model).members, checkpoints):
            member.load_state_dict(read_matching(member, path)['state_dict'])
    state_choice(runner, choices)
    state_trainings(runner, [training for trainings in trainings_of_each for training in trainings])
    return runner


def _origin(path: str) -> tuple[Optional[int], Optional[Choice], list[Training]]:
    """Return a checkpoint's seed, why it was chosen, and the facts of its trainings.

    Only one file is in memory at a time.
    """
    checkpoint = read_checkpoint(path)
    seed = checkpoint.get('meta', {}).get('seed')
    return seed, choice_of(checkpoint), trainings_of(checkpoint, path)
