"""Trainings killed at random moments and resumed: they end as if nothing had happened, bit for bit.

Four methods, small, with and without data workers; beside them one that accumulates batches over
windows that do not divide an epoch, and one that goes on with more epochs and another rate.

A kill is aimed at the writing of a file (the folder changes, whatever is written there and how), at
a validation, or at any moment; a run is killed one to three times.  After each kill every
checkpoint that has its final name must be whole.  What must be equal at the end: everything in the
last checkpoint and in the best one (weights, optimizer, schedulers, random states, queues), the
list of checkpoints, and the numbers of the test.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
import zipfile
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch

from campaign.trial import Trial
from campaign.watching import changes
from children import MP, ROOT, _call, _run_tool
from mmvtr.engine.loops.checkpoint import latest_checkpoint
from mmvtr.engine.loops.facts import BEST
from mmvtr.storage.weights import read_checkpoint

CONFIG = """
_base_ = ['{root}/configs/{config}.py']
custom_imports = dict(imports=['toy'], allow_failed_imports=False)
corpus = dict(num_train=12, num_val=4, num_test=4)
workers = dict(num_workers={workers}, persistent_workers={workers} > 0)
train_dataloader = dict(batch_size=4, **workers, dataset=corpus)
val_dataloader = dict(batch_size=4, num_workers={workers}, dataset=corpus)
test_dataloader = dict(batch_size=4, num_workers=0, dataset=corpus)
train_cfg = dict(max_epochs=4, val_interval=1)
default_hooks = dict(mark=dict(type='MarkHook'))
"""
FAMILIES = dict(
    dvtr='dvtr_c2v_planted',
    ncl='ncl_clip4clip_planted',
    causal='causal_planted',
    arl='arl_planted',
    accumulated='causal_planted',
    longer='causal_planted',
)
#: What a family's config says beside :data:`CONFIG`.
MORE = dict(
    accumulated="""
optim_wrapper = dict(accumulative_counts=5)
auto_scale_lr = dict(base_batch_size=20)
""",
    longer='optim_wrapper = dict(optimizer=dict(lr=2e-4))\n',
)
#: What it says in a first training, with which the one that is killed goes on.
BEFORE = dict(
    longer="""
train_cfg = dict(max_epochs=2, val_interval=1)
optim_wrapper = dict(optimizer=dict(lr=1e-3))
"""
)
AIMS = ('writing', 'validating', 'any')
#: Seconds that a small training may take.
LIMIT = 120


class Whole(NamedTuple):
    """An uninterrupted run: how it ends and how long it takes."""

    end: dict[str, Any]
    seconds: float


def run(number: int, seed: int, folder: Path) -> list[Trial]:
    """Kill trainings.

    Args:
        number: of kills.
        seed: of the choice of methods and moments.
        folder: for the runs; may be empty or not exist.

    Returns:
        One trial a kill: 'right', or 'lost' if the run that it hit did not end as the
        uninterrupted one, 'hang' if it did not end.
    """
    chance = random.Random(seed)
    wholes: dict[tuple[str, int], Whole] = {}
    kinds = [(family, workers) for workers in (0, 2) for family in FAMILIES]
    trials: list[Trial] = []
    for attempt in range(10 * number):
        if len(trials) >= number:
            break
        family, workers = kinds[attempt % len(kinds)]
        if (family, workers) not in wholes:
            place = folder / f'{family}_{workers}_whole'
            wholes[family, workers] = uninterrupted(place, folder / 'data', family, workers)
        place = folder / f'{family}_{workers}_{attempt}'
        aims = [chance.choice(AIMS) for _ in range(chance.randint(1, 3))][: number - len(trials)]
        trials += killed(place, family, workers, wholes[family, workers], aims, chance)
    return trials


def uninterrupted(place: Path, data: Path, family: str, workers: int) -> Whole:
    """A run that nobody kills; it makes the planted corpus for all."""
    prepare(place, data, family, workers)
    begun = time.monotonic()
    code = train(place)
    if code != 0:
        raise RuntimeError(f'{place}: the uninterrupted run ended with {code}')
    return Whole(outcome(place / 'work'), time.monotonic() - begun)


def killed(
    place: Path, family: str, workers: int, whole: Whole, aims: list[str], chance: random.Random
) -> list[Trial]:
    """A run that is killed once for each of ``aims``, where they are met, and its verdict."""
    prepare(place, place.parent / 'data', family, workers)
    hits: list[str] = []
    torn: list[str] = []
    for aim in aims:
        code = train(place, at=moment(aim, place / 'work', whole.seconds, chance))
        if code != -signal.SIGKILL:
            break
        hits.append(aim)
        torn += torn_files(place / 'work')
    verdict, detail = 'right', ''
    code = train(place)
    if code != 0:
        verdict = 'hang' if code is None else 'lost'
        detail = f'{place}: killed {hits}, resumed, ended with {code}'
    else:
        differs = differences(outcome(place / 'work'), whole.end)
        if torn or differs:
            what = f'torn {torn[:3]}, differs in {", ".join(differs[:5])}'
            verdict, detail = 'lost', f'{place}: killed {hits}, {what}'
    row = f'{family}, {workers} workers'
    if verdict != 'right' and not hits:  # no kill, and yet another end
        return [Trial(row, verdict, detail)]
    return [Trial(row, verdict, detail) for _ in hits]


def torn_files(work: Path) -> list[str]:
    """Names of what is called a checkpoint and is no whole archive, or points to none."""
    torn = []
    for path in work.glob('*.pth'):
        try:
            with zipfile.ZipFile(path) as archive:
                torn += [path.name] if archive.testzip() else []
        except (OSError, zipfile.BadZipFile):
            torn.append(path.name)
    pointer = work / 'last_checkpoint'
    if pointer.exists() and not (work / Path(pointer.read_text()).name).is_file():
        torn.append(pointer.name)
    return torn


def prepare(place: Path, data: Path, family: str, workers: int) -> None:
    """A folder with the config of a run, the common data, and what the run goes on with."""
    place.mkdir(parents=True)
    data.mkdir(exist_ok=True)
    (place / 'data').symlink_to(data.resolve())
    text = CONFIG.format(root=ROOT, config=FAMILIES[family], workers=workers)
    if family in BEFORE:
        (place / 'run.py').write_text(text + BEFORE[family])
        code = train(place)
        if code != 0:
            raise RuntimeError(f'{place}: the first training ended with {code}')
    (place / 'run.py').write_text(text + MORE.get(family, ''))


def train(place: Path, at: Optional[Callable[[], bool]] = None) -> Optional[int]:
    """Start or resume the training of a folder; kill it as soon as ``at()`` holds.

    Returns:
        Its exit code, None if it had not ended after :data:`LIMIT` seconds and was killed.
    """
    arguments = ['run.py', '--work-dir', str(place / 'work'), '--resume', '--seed', '3']
    (place / 'work' / 'validating').unlink(missing_ok=True)  # of a run that was killed
    call = (place / 'log.txt', _run_tool, (place, 'train.py', arguments), {})
    child = MP.Process(target=_call, args=call)
    child.start()
    until = time.monotonic() + LIMIT
    while child.is_alive():
        if at is not None and at():
            kill(child.pid)
        if time.monotonic() > until:
            kill(child.pid)
            child.join()
            return None
        time.sleep(0.0005 if at is not None else 0.02)
    child.join()
    return child.exitcode


def kill(pid: int) -> None:
    """A process and its data workers, at once."""
    for victim in (pid, *offspring(pid)):
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass


def offspring(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f'/proc/{pid}/task/{pid}/children').read_text().split()))
    except (FileNotFoundError, ProcessLookupError):
        return []


def moment(aim: str, work: Path, seconds: float, chance: random.Random) -> Callable[[], bool]:
    """When to kill: the returned function says whether it is time."""
    begun, patience = time.monotonic(), chance.uniform(0, seconds)
    if aim == 'any':
        return lambda: time.monotonic() - begun > patience
    if aim == 'writing':
        skip, delay = chance.randrange(24), chance.choice([0.0, chance.uniform(0, 0.01)])
        seen = changes(work, lambda name: name != 'validating')
    else:
        skip, delay = 2 * chance.randrange(4), chance.uniform(0, 0.2)  # it comes and goes
        seen = changes(work, lambda name: name == 'validating')
    met: list[float] = []

    def due() -> bool:
        if not met and next(seen) > skip:
            met.append(time.monotonic())
        return bool(met) and time.monotonic() - met[0] >= delay

    return due


# -- how a run ends ------------------------------------------------------------------------------


def outcome(work: Path) -> dict[str, Any]:
    """All that a finished run leaves, by name: tensors as bytes, other values as they are."""
    last = read_checkpoint(latest_checkpoint(work))
    found = dict(_leaves(last, 'last'))
    found.update(_leaves(read_checkpoint(work / BEST), 'best'))
    found['files'] = sorted(path.name for path in work.glob('*.pth*'))
    tables = sorted(work.glob('*/*.json'))
    numbers = json.loads(tables[-1].read_text())
    # As text: a NaN equals a NaN.
    found.update({f'test.{k}': repr(x) for k, x in numbers.items() if 'time' not in k})
    return found


#: What is compared of ``meta`` and of the message hub; the rest are paths, times and logs.
TOLD = dict(
    meta=('chosen', 'epoch', 'iter', 'seed'),
    runtime_info=('best_score', 'epoch', 'iter', 'last_validated_epoch'),
)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in TOLD.get(name.rpartition('.')[2], (key,)):
                continue
            if not name.endswith('message_hub') or key == 'runtime_info':
                yield from _leaves(item, f'{name}.{key}')
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _leaves(item, f'{name}[{i}]')
    elif isinstance(value, torch.Tensor):
        yield name, (str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes())
    else:
        yield name, repr(value)


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Names of what differs or is in one of them only."""
    names = [*expected, *(name for name in found if name not in expected)]
    return [n for n in names if found.get(n) != expected.get(n) or (n in found) != (n in expected)]
