"""Galleries whose commands fail or are killed half way: what was there is there, whole.

A command that deletes and adds, and whose adding fails, must leave all as it was; a replacement
that is killed before any change of the folder must leave the old gallery or the new one.
"""

from __future__ import annotations

import random
import runpy
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, Optional
from unittest import mock

import numpy as np

from campaign.trial import Trial
from campaign.watching import die_before
from children import in_child, tool_file
from mmvtr import apis
from mmvtr.datasets.videos.video_io import decode_all
from mmvtr_gallery import stored_model
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.replacing import replace_store

DIM, ITEMS = 8, 30
#: Changes that a replacement makes in the folder, and more.
CHANGES = 60


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """A third are commands that fail, the others are replacements that are killed."""
    folder.mkdir(parents=True, exist_ok=True)
    trials = []
    for number in range(count):
        draw = random.Random(f'{seed}-{number}')
        place = folder / str(number)
        kinds = (failed_command, killed_replacement, killed_replacement)
        trials.append(kinds[number % 3](place, draw))
    return trials


class Held(NamedTuple):
    """What is in a folder: the number of a gallery, None of a part or a mixture, and how many."""

    gallery: Optional[int]
    items: int


def vectors(seed: int) -> np.ndarray:
    """Float32 [ITEMS, DIM]."""
    return np.random.default_rng(seed).normal(size=(ITEMS, DIM)).astype(np.float32)


def names(generation: int) -> list[str]:
    """Ids of all items of a gallery."""
    return [f'{generation}-{i}' for i in range(ITEMS)]


def held(place: Path) -> Held:
    """Which of the two galleries a folder holds: all of its items and nothing else."""
    with open_store(place) as store:
        count = store.count()
        for generation in (0, 1):
            try:
                items = store.get(names(generation))
            except ValueError:  # some are not there
                continue
            found = np.stack([item.vector for item in items])
            whole = count == ITEMS and np.array_equal(found, vectors(generation))
            return Held(generation if whole else None, count)
        return Held(None, count)


# -- a command that fails ------------------------------------------------------------------------


def failed_command(place: Path, draw: random.Random) -> Trial:
    """``search.py DIR --delete ... --add ...``, and what is added cannot be, for two reasons."""
    row = 'delete and add'
    with create_store(place, DIM, geometry='inner_product') as store:
        store.add(names(0), vectors(0))
        store.persist()
    gone = draw.sample(names(0), draw.randint(1, 5))
    left = [name for name in names(0) if name not in gone]
    new = dict(broken=['new'], known=['new', draw.choice(left)])
    kind = draw.choice([*new])
    files = [place.parent / f'{place.name}_{n}.mp4' for n in range(len(new[kind]))]
    for file in files:
        file.touch()
    log = place.parent / f'{place.name}.txt'
    arguments = [str(place), '--delete', *gone, '--add', *map(str, files)]
    code = in_child(log, _search, arguments, new[kind] if kind == 'known' else None)
    said = log.read_text()
    if code == 0:
        return Trial(row, 'silent', f'{kind}: {said[:300]}')
    try:
        after = held(place)
    except Exception as error:
        return Trial(row, 'lost', f'{kind}: {type(error).__name__}: {error}')
    if after.gallery != 0:
        return Trial(row, 'lost', f'{kind}: {after.items} of {ITEMS} items, after {said[:300]}')
    return Trial(row, 'raw', said[:300]) if 'Traceback' in said else Trial(row, 'refused')


def _search(arguments: list[str], ids: list[str] | None) -> None:
    """The tool, with a model that cannot read the videos (None), or that gives them these ids."""

    def encode(model: object, cfg: object, paths: list[str]) -> SimpleNamespace:
        if ids is None:
            decode_all(paths[0])  # it is empty
        return SimpleNamespace(ids=ids, levels=None)

    found = vectors(1)[: len(ids or [])]
    stubs = dict(
        encode_videos=encode,
        vectors=lambda *a: found,
        sigmas=lambda *a: None,
    )
    sys.argv = ['search.py', *arguments]
    loaded = mock.patch.object(stored_model, 'load_stored_retriever', lambda *a, **k: (None, None))
    with loaded, mock.patch.multiple(apis, **stubs):
        runpy.run_path(str(tool_file('search.py')), run_name='__main__')


# -- a replacement that is killed ----------------------------------------------------------------


def killed_replacement(place: Path, draw: random.Random) -> Trial:
    """A process that ends before its n-th change of the folder."""
    row = 'killed while it is replaced'
    with create_store(place, DIM, geometry='inner_product') as store:
        store.add(names(0), vectors(0))
        store.persist()
    step, log = draw.randrange(CHANGES), place.parent / f'{place.name}.txt'
    code = in_child(log, _replace, place, step)
    if code not in (0, -signal.SIGKILL):
        return Trial(row, 'raw', f'step {step}: {code}, {log.read_text()[-300:]}')
    try:
        found = held(place)
    except Exception as error:
        return Trial(row, 'lost', f'step {step}: {type(error).__name__}: {str(error)[:300]}')
    if found.gallery is not None:
        return Trial(row, 'right')
    return Trial(row, 'lost', f'step {step}: {found.items} items, of no gallery')


def _replace(place: Path, step: int) -> None:
    die_before(step, place)
    with replace_store(place, DIM, geometry='inner_product') as store:
        store.add(names(1), vectors(1))
        store.persist()
