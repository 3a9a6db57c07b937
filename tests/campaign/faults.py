"""Faults of a disk, a config, a set and its metrics: each is refused in words, before it costs."""

from __future__ import annotations

import random
import resource
from pathlib import Path
from typing import Any, NamedTuple

from campaign.trial import Trial
from children import MP, _call, _run_tool
from tiny_sets import of_planted

CONFIG = of_planted('c2v_planted', max_epochs=1)
LIMIT = 60


class Fault(NamedTuple):
    """A training that must not start.

    Attributes:
        row: what kind of fault it is.
        options: of ``--cfg-options``.
        names: what the message must name.
        work_dir: given with ``--work-dir``.
        size: bytes that a file may have, None for no limit.
    """

    row: str
    options: tuple[str, ...] = ()
    names: str = ''
    work_dir: str = 'work'
    size: int | None = None


METRICS = (
    ('default_hooks.checkpoint.save_best=retrieval/rsun', 'retrieval/rsum'),
    ('default_hooks.checkpoint.save_best=semantic/mAP', 'semantic/mAP'),
    ('default_hooks.checkpoint.save_best=sinkhorn/retrieval/rsum', 'sinkhorn'),
    ('val_evaluator=None', 'val_evaluator'),
    ('val_cfg=None', 'val_cfg'),
    ('test_evaluator.0.type=UncertaintyMetric', 'UncertaintyMetric'),
    ('test_evaluator.0.type=SoftPositiveMetric', 'SoftPositiveMetric'),
    ('test_evaluator.0.type=LengthBiasMetric', 'LengthBiasMetric'),
)
SETS = (
    ('train_dataloader.dataset.split=trian', 'trian'),
    ('train_dataloader.dataset.general=2', 'general'),
    ('train_dataloader.dataset.num_train=-1', 'num_train'),
    ('train_dataloader.dataset.epoch_unit=vidoe', 'vidoe'),
    ('val_dataloader.dataset.text_pipeline.0.vocab_file=data/gone.txt', 'data/gone.txt'),
)
DISK = (
    Fault('disk', names='taken', work_dir='taken'),
    Fault('disk', names='taken', work_dir='taken/below'),
    Fault('disk', names='work', size=2_000),
    Fault('disk', names='work', size=20_000),
    Fault('disk', names='epoch_1.pth', size=300_000),
)
#: Keys whose last letters are changed.
KEYS = (
    'model.encoder', 'model.encoder.temporal_layers', 'model.similarity.levels', 'model.losses',
    'model.temperature.init', 'train_dataloader.batch_size', 'train_dataloader.dataset.split',
    'train_dataloader.dataset.video_pipeline.0.num_frames', 'train_dataloader.sampler',
    'train_cfg.max_epochs', 'val_cfg', 'optim_wrapper.optimizer.lr', 'optim_wrapper.clip_grad',
    'optim_wrapper.clip_grad.max_norm', 'param_scheduler.0.start_factor', 'randomness.seed',
    'default_hooks.checkpoint.save_best', 'default_hooks.logger.interval', 'log_processor',
    'log_processor.window_size', 'env_cfg.mp_cfg', 'visualizer.vis_backends', 'load_from', 'resume',
)  # fmt: skip


def typos(number: int, seed: int) -> list[Fault]:
    """Options with a slip of the pen in the last name of a key: two letters swapped, one lost."""
    chance, faults = random.Random(seed), []
    while len(faults) < number:
        head, dot, name = chance.choice(KEYS).rpartition('.')
        i = chance.randrange(len(name) - 1)
        swapped = name[:i] + name[i + 1] + name[i] + name[i + 2 :]
        slip = chance.choice([swapped, name[:i] + name[i + 1 :], name + name[-1]])
        if slip != name and len(slip) > 1:
            faults.append(Fault('typo', (f'{head}{dot}{slip}=1',), slip))
    return faults


def run(number: int, seed: int, folder: Path) -> list[Trial]:
    """Start trainings that must be refused.

    Args:
        number: of typos in keys; the other faults are tried once each.
        seed: of the typos.
        folder: for the runs.

    Returns:
        'refused' if one line in words names the fault before the first step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'p.py').write_text(CONFIG)
    (folder / 'taken').write_text('')
    faults = [*DISK, *typos(number, seed)]
    for row, table in (('metric', METRICS), ('set', SETS)):
        faults += [Fault(row, (option,), names) for option, names in table]
    return [attempt(fault, folder, i) for i, fault in enumerate(faults)]


def attempt(fault: Fault, folder: Path, number: int) -> Trial:
    """One start and its verdict."""
    log = folder / f'{number}.txt'
    work_dir = fault.work_dir if fault.row == 'disk' else f'work_{number}'
    arguments = ['p.py', '--work-dir', work_dir]
    if fault.options:
        arguments += ['--cfg-options', *fault.options]
    child = MP.Process(target=_call, args=(log, _limited, (fault.size, folder, arguments), {}))
    child.start()
    child.join(LIMIT)
    verdict = 'hang' if child.is_alive() else judge(fault, child.exitcode, log.read_text())
    child.kill()
    return Trial(fault.row, verdict, '' if verdict == 'refused' else f'{fault}: {log}')


def _limited(size: int | None, folder: Path, arguments: list[Any]) -> None:
    if size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    _run_tool(folder, 'train.py', arguments)


def judge(fault: Fault, code: int, printed: str) -> str:
    """The verdict on what a tool has printed."""
    if code == 0:
        return 'silent'
    begins = printed.find('error: ')
    message = printed[begins:].strip()
    if code != 1 or begins < 0 or 'Traceback' in printed:
        return 'raw'
    if fault.row != 'disk' and 'Epoch(train)' in printed:
        return 'lost'
    if len(message) > 500:
        return 'long'
    return 'refused' if fault.names in message else 'nameless'
