"""Joint refits and undos of items and windows, killed: both have the old biases, or both the new.

What biases are to be is computed here, by numpy in float64: those of the inverted softmax, of which
a search needs no more than that they differ by a constant.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
from pathlib import Path

import numpy as np

from campaign.trial import Trial
from campaign.watching import die_before
from children import in_child
from mmvtr_gallery.store import GalleryStore, create_store, open_store
from mmvtr_gallery.store.moments import MomentStore, Windows

DIM, ITEMS, EACH, BANK, SECONDS = 8, 20, 2, 60, 0.05
#: Changes of files that python sees in such a change: a kill falls before one of them.
STEPS = dict(refit=26, undo=28)


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Kill joint changes, of each kind in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = list(STEPS)
    trials = []
    for number in range(count):
        change = kinds[number % len(kinds)]
        draw = random.Random(f'{seed}-{number}')
        step = draw.randrange(STEPS[change])
        trials.append(attempt(change, folder / str(number), step))
    return trials


def attempt(change: str, place: Path, step: int) -> Trial:
    """One kill, before a change of a file: read, mended, read, taken back, read."""
    row, log = change, place.parent / f'{place.name}.txt'
    whole = place.parent / 'whole'
    code = 0 if whole.exists() else in_child(log, make, whole)
    if code == 0:
        shutil.copytree(whole, place)
        code = in_child(log, work, place, change, step)
    if code != -signal.SIGKILL:  # 0: the change was over before
        return Trial(row, 'raw', f'step {step}: not killed but {code}, {log.read_text()[-300:]}')
    if in_child(log, look, place) != 0:
        return Trial(row, 'lost', f'step {step}: {log.read_text()[-300:]}')
    found = json.loads((place / 'found.json').read_text())
    state = found[0]
    old, new = (1, 2) if change == 'refit' else (2, 1)
    # An undo takes the last refit back, or the undo itself.
    after = {1: 0, 2: 1} if change == 'refit' else {2: 1, 1: 2}
    if state not in (old, new) or found != [state] * 3 + [after[state]] * 2:
        return Trial(row, 'lost', f'step {step}: refits {found}, of no state if 3')
    return Trial(row, 'right')


def units(count: int, seed: int) -> np.ndarray:
    """Float32 [count, DIM], of norm 1."""
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def names() -> list[str]:
    return [f'i{n}' for n in range(ITEMS)]


def make(place: Path) -> None:
    """A gallery with windows, refitted once."""
    with create_store(place, DIM) as store:
        with MomentStore.create(store, place) as moments:
            parts = {
                name: Windows([0.0, 2.0], [4.0, 6.0], units(EACH, 10 + n))
                for n, name in enumerate(names())
            }
            moments.add(names(), units(ITEMS, 0), windows=parts)
            moments.persist()
            with moments.kept():
                refit(moments, 1)


def work(place: Path, kind: str, step: int) -> None:
    """Refit a second time, or refit and take that back, and die while that is done."""
    with open_store(place, write=True) as store:
        with MomentStore.open(store, place, write=True) as moments:
            if kind == 'undo':
                with moments.kept():
                    refit(moments, 2)
            die_before(step, place)
            with moments.kept():
                moments.undo() if kind == 'undo' else refit(moments, 2)


def refit(moments: MomentStore, bank: int) -> None:
    options = dict(transform='inverted_softmax', temperature=SECONDS, fewer=True)
    moments.refit(units(BANK, bank), **options)


def look(place: Path) -> None:
    """Write down the number of the refit that both have, 3 where they differ: read, opened for
    writing, read, with the last refit taken back, and read.
    """
    found = []
    for kind in ('read', 'mend', 'read', 'take back', 'read'):
        write = kind != 'read'
        with open_store(place, write=write) as store:
            with MomentStore.open(store, place, write=write) as moments:
                if kind == 'take back':
                    with moments.kept():
                        moments.undo()
                found.append(both(store, moments))
    (place / 'found.json').write_text(json.dumps(found))


def both(store: GalleryStore, moments: MomentStore) -> int:
    """Which refit items and windows have, 3 where they differ or some are missing."""
    found = {fitted(store), fitted(moments.windows)}
    whole = store.count() == ITEMS and moments.windows.count() == ITEMS * EACH
    return found.pop() if len(found) == 1 and whole else 3


def fitted(store: GalleryStore) -> int:
    """Which bank gave a store its biases, 0 none, 3 neither."""
    columns = store.table(['vector', 'bias'])[1]
    vectors, biases = np.stack(columns['vector']).astype(float), np.array(columns['bias'])
    if not biases.any():
        return 0
    for bank in (1, 2):
        scores = units(BANK, bank).astype(float) @ vectors.T / SECONDS
        rest = biases + SECONDS * np.log(np.exp(scores).sum(0))
        if np.ptp(rest) < 1e-4:
            return bank
    return 3
