"""Files that are written over while their writer is killed: there is the old one or the new one.

How a file is written does not matter here: its name alone is looked at, and the content must be one
of those that were written, read with torch or with the standard library.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

import torch

from campaign.trial import Trial
from children import MP, _call
from mmvtr.engine.hooks.checkpoint_hook import AtomicBackend
from mmvtr.storage.atomic import write_atomically
from mmvtr.storage.reader import write_plain

#: Numbers of a file: large enough that writing takes a while.
SIZE = 1 << 20
#: Seconds until a first file must be there, and of a kill after that at most.
PATIENCE, LATEST = 60.0, 0.08


class Writer(NamedTuple):
    """Writes generation n of a file; reads which one it is, or raises."""

    write: Callable[[Path, int], None]
    read: Callable[[Path], int]


def _text(number: int) -> str:
    return json.dumps(dict(number=number, filling=[number] * (SIZE // 4)))


def _tensor(path: Path) -> int:
    content = torch.load(path, weights_only=True)
    (number,) = set(content['filling'][:: SIZE // 64].tolist())
    if number != content['number'] or len(content['filling']) != SIZE:
        raise ValueError('a mixture')
    return number


def _json(path: Path) -> int:
    return json.loads(path.read_text())['number']


def _save(path: Path, number: int) -> None:
    write_plain(_content(number), path)


def _content(number: int) -> dict[str, Any]:
    return dict(number=number, filling=torch.full((SIZE,), number))


WRITERS = {
    'checkpoints': Writer(_save, _tensor),
    'any file': Writer(
        lambda path, number: write_atomically(path, lambda f: f.write(_text(number).encode())),
        _json,
    ),
    "mmengine's files": Writer(
        lambda path, number: AtomicBackend().put_text(_text(number), path), _json
    ),
}


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Kill writers at random moments, each of them in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    trials = []
    for number in range(count):
        row = list(WRITERS)[number % len(WRITERS)]
        draw = random.Random(f'{seed}-{number}')
        trials.append(attempt(row, folder / f'{number}' / 'file', draw))
    return trials


def attempt(row: str, path: Path, draw: random.Random) -> Trial:
    """One kill."""
    path.parent.mkdir()
    child = MP.Process(target=_call, args=(path.parent / 'log.txt', _work, (row, path), {}))
    child.start()
    until = time.monotonic() + PATIENCE
    first = path.with_name('first')
    while not first.exists() and time.monotonic() < until and child.is_alive():
        time.sleep(0.001)
    time.sleep(draw.uniform(0, LATEST))
    if not child.is_alive():
        return Trial(row, 'raw', f'{path}: ended with {child.exitcode}')
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    try:
        WRITERS[row].read(path)
    except Exception as error:
        return Trial(row, 'lost', f'{path}: {type(error).__name__}: {str(error)[:200]}')
    path.unlink()
    return Trial(row, 'right')


def _work(row: str, path: Path) -> None:
    for number in range(10**6):
        WRITERS[row].write(path, number)
        path.with_name('first').touch()
