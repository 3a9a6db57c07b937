"""Checkpoints that another training has left in a folder are moved aside, never written over."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Iterable, NamedTuple, Optional, Union

from mmvtr.engine.loop.facts import BEST, choice_of
from mmvtr.storage import write_atomically
from mmvtr.storage.weights import read_checkpoint


def steps_in(folder: Union[str, Path], template: str) -> dict[Path, int]:
    """Return the checkpoints of single epochs (or steps) in a folder, each with its number.

    Args:
        folder: of a training.
        template: of their names, such as ``'epoch_{}.pth'``.
    """
    before, after = map(re.escape, template.split('{}'))
    found = {path: re.fullmatch(f'{before}(\\d+){after}', path.name) for path in _files(folder)}
    return {path: int(match[1]) for path, match in found.items() if match}


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
        path: the checkpoint that it goes on from.
        step: its epochs, or steps where the training counts these.
        newest: whether the folder's ``last_checkpoint`` points to it.
        best: where its best checkpoint was; None: nothing was chosen yet.
        score: of that one.
    """

    path: Path
    step: int
    newest: bool
    best: Optional[Path]
    score: Optional[float]


def make_room(
    folder: Path, pointer: Path, template: str, past: Optional[Past]
) -> tuple[bool, list[str]]:
    """Leave in a folder what is of the training that begins, and move all other checkpoints aside.

    A new training keeps nothing.  One that goes on keeps its past, and its best checkpoint becomes
    ``best.pth`` of this folder.

    Args:
        folder: for the checkpoints.
        pointer: the file that names the newest one.
        template: of their names.
        past: of a training that goes on; None: it is new.

    Returns:
        Whether ``best.pth`` is there and of this training, and lines that say what was done.
    """
    notes: list[str] = []
    best = None if past is None else _own_best(folder, past, notes)
    if past is not None and past.score is not None and best is None:
        notes.append(
            f'the best checkpoint of {past.path} ({past.score:.6g}) is no more: best.pth will be '
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
    else:  # what a start that was killed has left
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

    One of this folder that is newer than the training is its own, too, if it goes on from its
    newest checkpoint: then it was killed between the two, and will write the same again.
    """
    if past.best is None and not past.newest:
        return None
    known = [] if past.best is None else [folder / past.best.name, past.best]
    for path in dict.fromkeys([folder / BEST, past.path.parent / BEST, *known]):
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
    """Make a checkpoint the ``best.pth`` of a folder; one of an older version has a new name."""
    if best.parent == folder:
        os.replace(best, folder / BEST)
    else:
        with open(best, 'rb') as source:
            write_atomically(folder / BEST, lambda file: shutil.copyfileobj(source, file))
