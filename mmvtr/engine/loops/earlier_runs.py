"""Checkpoints of another training in a folder: moved aside, never overwritten."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Iterable, NamedTuple, Optional, Union

from mmvtr.engine.loops.facts import BEST, choice_of
from mmvtr.storage import write_atomically
from mmvtr.storage.weights import read_checkpoint


def steps_in(folder: Union[str, Path], template: str) -> dict[Path, int]:
    """Return the checkpoints of single epochs (or steps) in a folder, each with its number.

    Args:
        folder: folder of a training.
        template: template of their names, such as ``'epoch_{}.pth'``.
    """
    before, after = map(re.escape, template.split('{}'))
    matches = {path: re.fullmatch(f'{before}(\\d+){after}', path.name) for path in _files(folder)}
    return {path: int(match[1]) for path, match in matches.items() if match}


def best_in(folder: Union[str, Path]) -> list[Path]:
    """Return ``best.pth``, or its name in older versions (``best_retrieval_rsum_epoch_7.pth``)."""
    return [p for p in _files(folder) if p.name == BEST or re.fullmatch(r'best_.*\.pth', p.name)]


def _files(folder: Union[str, Path]) -> list[Path]:
    return sorted(path for path in Path(folder).glob('*') if path.is_file())


def set_aside(paths: Iterable[Path], folder: Union[str, Path]) -> Optional[Path]:
    """Move files into a new folder ``earlier_<number>`` of ``folder``.

    Returns:
        That folder; None if there was nothing to move.
    """
    paths = [path for path in paths if path.is_file()]
    if not paths:
        return None
    number = 1
    while True:
        aside = Path(folder, f'earlier_{number}')
        try:
            aside.mkdir(parents=True)
            break
        except FileExistsError:
            number += 1
    for path in paths:
        os.rename(path, aside / path.name)
    return aside


class Past(NamedTuple):
    """State of a resumed training.

    Attributes:
        path: the checkpoint that is resumed.
        step: its epochs, or steps if the training counts steps.
        newest: whether the folder's ``last_checkpoint`` points to it.
        best: path of its best checkpoint; None: nothing was chosen yet.
        score: metric value of the best checkpoint.
    """

    path: Path
    step: int
    newest: bool
    best: Optional[Path]
    score: Optional[float]


def make_room(
    folder: Path, pointer: Path, template: str, past: Optional[Past]
) -> tuple[bool, list[str]]:
    """Keep in a folder only checkpoints of the training that begins; move all others aside.

    A new training keeps nothing.  A resumed one keeps its own earlier checkpoints, and its best one
    becomes ``best.pth`` of this folder.

    Args:
        folder: folder of the checkpoints.
        pointer: the file that names the newest one.
        template: template of their names.
        past: state of a resumed training; None: it is new.

    Returns:
        Whether there is a ``best.pth`` of this training, and lines that describe what was done.
    """
    notes: list[str] = []
    best = None if past is None else _own_best(folder, past, notes)
    if past is not None and past.score is not None and best is None:
        notes.append(
            f'the best checkpoint of {past.path} ({past.score:.6g}) is gone: best.pth will be '
            'chosen among the validations from here on'
        )
    steps, chosen = steps_in(folder, template), best_in(folder)
    if past is not None and past.newest:
        strange = [path for path in chosen if path != best and path.name == BEST]
    elif past is not None and past.path.parent.resolve() == folder.resolve():
        later = [path for path, step in steps.items() if step > past.step]
        strange = [pointer, *later, *(path for path in chosen if path != best)]
    elif pointer.is_file() or chosen:
        strange = [pointer, *steps, *(path for path in chosen if path != best)]
    else:  # left by a start that was killed
        strange = []
    names = ', '.join(path.name for path in strange if path != pointer and path.is_file())
    aside = set_aside(strange, folder)
    if aside is not None:
        notes.append(f'{folder} holds checkpoints of another training ({names}): now in {aside}')
    if best is not None and best != folder / BEST:
        _bring(best, folder)
    return best is not None, notes


def _own_best(folder: Path, past: Past, notes: list[str]) -> Optional[Path]:
    """Return a resumed training's best checkpoint if it exists; warn if it is damaged.

    A best checkpoint in this folder that is newer than the resumed state is also its own if the
    training resumes from its newest checkpoint: it was then killed between the two writes, and will
    write the same file again.
    """
    if past.best is None and not past.newest:
        return None
    named = [] if past.best is None else [folder / past.best.name, past.best]
    for path in dict.fromkeys([folder / BEST, past.path.parent / BEST, *named]):
        if not path.is_file():
            continue
        if path.name != BEST:  # the epoch is in its name
            return path
        try:
            choice = choice_of(read_checkpoint(path))
        except RuntimeError as error:
            notes.append(str(error))
            continue
        if choice is None:
            continue
        if past.score is not None and choice.value == past.score:
            return path
        if past.newest and path.parent == folder and choice.epoch >= past.step:
            return path
    return None


def _bring(best: Path, folder: Path) -> None:
    """Make a checkpoint the ``best.pth`` of a folder, by renaming or copying it."""
    if best.parent == folder:
        os.replace(best, folder / BEST)
    else:
        with open(best, 'rb') as source:
            write_atomically(folder / BEST, lambda file: shutil.copyfileobj(source, file))
