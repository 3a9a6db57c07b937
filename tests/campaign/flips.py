"""One flipped bit anywhere in a checkpoint: it is seen, or it changes nothing.

Of every three flips one is in the digest, one hexadecimal digit after the other: each of them
counts.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.runner import Runner

import children
import toy
from campaign.trial import Trial
from mmvtr.engine.loops.checkpoint import latest_checkpoint
from mmvtr.storage.weights import read_checkpoint

#: Of the digest that ends a file.
DIGITS = 64


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Train the toy with the checkpoint hook; flip and read its last checkpoint ``count`` times.

    The rows are the parts of the file that were hit: data and records before them, its end (the
    archive's directory), and the digest behind it.
    """
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / 'log.txt'
    if children.in_child(log, train, folder):
        raise RuntimeError(f'the toy cannot be trained: {log.read_text()}')
    path = Path(latest_checkpoint(folder / 'work'))
    whole, expected = path.read_bytes(), read_checkpoint(path)
    directory = whole.rindex(b'PK\x05\x06')  # and the digest behind it
    digest = len(whole) - DIGITS
    flipped = folder / 'flipped.pth'
    trials = []
    for number in range(count):
        raw = bytearray(whole)
        if number % 3 == 2:
            place, row = digest + (seed + number // 3) % DIGITS, 'digest'
            raw[place] = ord(draw.choice('0123456789abcdef'.replace(chr(raw[place]), '')))
        else:
            place = draw.randrange(digest)
            row = 'end of the file' if place >= directory else 'records and directory'
            raw[place] ^= 1 << draw.randrange(8)
        flipped.write_bytes(raw)
        repeat = f'byte {place} of {len(whole)}: {whole[place]} is now {raw[place]}'
        trial = judge(row, flipped, expected, repeat)
        if row == 'digest' and trial.verdict == 'right':  # a digest that does not fit
            trial = trial._replace(verdict='silent')
        trials.append(trial)
    return trials


def train(folder: Path) -> None:
    """One epoch of the toy."""
    cfg = Config.fromfile(toy.write_config(folder))
    cfg.merge_from_dict({'train_cfg.max_epochs': 1, 'work_dir': str(folder / 'work')})
    Runner.from_cfg(cfg).train()


def judge(row: str, path: Path, expected: Any, repeat: str) -> Trial:
    """How the reader took a file."""
    try:
        found = read_checkpoint(path)
    except (RuntimeError, FileNotFoundError) as error:
        words = str(error)
        if str(path) not in words:
            return Trial(row, 'nameless', f'{repeat}: {words}')
        if len(words) - len(str(path)) > 400:
            return Trial(row, 'long', f'{repeat}: {words}')
        return Trial(row, 'refused')
    except Exception as error:
        return Trial(row, 'raw', f'{repeat}: {type(error).__name__}: {error}')
    return Trial(row, 'right' if same(found, expected) else 'silent', repeat)


def same(one: Any, two: Any) -> bool:
    """Bit by bit: the same types, the same keys in the same order, the same bytes."""
    if type(one) is not type(two):
        return False
    if isinstance(one, torch.Tensor):
        alike = (one.dtype, one.shape, one.stride()) == (two.dtype, two.shape, two.stride())
        return alike and one.numpy().tobytes() == two.numpy().tobytes()
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two or one != one and two != two
