"""Atomic changes: several changes of a store, or of a gallery and its windows, all or none.

Within :func:`as_one` no store publishes its new state.  At the end, the new state of one store
replaces the old one; the new states of two stores are first written to one small file, the journal,
in the gallery's folder, which commits the change.  Then each ``store.json`` gets its new content,
and the journal is removed.  So the valid state of a folder is the journal's, if that is newer than
``store.json``; after a kill in between, :func:`finish` completes the work when either store is next
opened for writing.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Optional, Union

from mmengine.logging import print_log

from mmvtr.errors import UserError
from mmvtr.storage import FolderLock, in_use, write_atomically
from mmvtr.storage.digests import ROOM, write_with_digest
from mmvtr_gallery.store.manifest import NAME, Manifest, checked, read_sealed, refuse_link

if TYPE_CHECKING:
    from mmvtr_gallery.store.protocol import GalleryStore

#: Name of the journal, the version of its format, and the windows' folder within the gallery's.
JOURNAL, FORMAT, WINDOWS = 'joint.json', 1, 'moments'


@contextmanager
def as_one(*stores: GalleryStore) -> Iterator[None]:
    """Make all changes of one or two stores within the block atomic: after an error none is made.

    Args:
        stores: a gallery, and the windows beside it.

    Raises:
        ValueError: two stores in folders, and the windows are not in the gallery's folder; a change
            of both within a change of the first alone.
        OSError: it cannot be written; nothing has changed.
    """
    within = {store._joint for store in stores}
    if within == {True}:  # a part of a larger change
        yield
        return
    if len(within) > 1:
        raise ValueError(
            f'a change of {stores[0]} alone has begun: change both together, with kept()'
        )
    with ExitStack() as locks:
        for store in stores:
            locks.enter_context(store._changing)
        marks = [store._mark() for store in stores]
        for store in stores:
            store._joint = True
        try:
            yield
            changed = [store for store in stores if store._unpublished is not None]
            if len(changed) == 2:
                _write(*changed)
            elif changed:
                finish(changed[0].folder)  # or readers would prefer an old journal
                changed[0]._unpublished.write(changed[0].folder)
        except BaseException:
            for store, mark in zip(stores, marks):
                store._return_to(mark)
            raise
        finally:
            for store in stores:
                store._joint, store._unpublished = False, None
        _settle(changed)


def valid(folder: Union[str, Path]) -> Manifest:
    """Return the valid manifest in a store's folder.

    Raises:
        FileNotFoundError, RuntimeError: see :meth:`Manifest.read`; also a damaged journal.
    """
    own = Manifest.read(folder)
    journal = _journal_of(folder)
    said = {} if journal is None else _read(journal)
    new = said.get(_part(folder, journal))
    return own if new is None or new.commit <= own.commit else new


def stamp(folder: Union[str, Path]) -> tuple[int, ...]:
    """Return a value that differs after every change, cheap enough for every search."""
    journal = _journal_of(folder)
    found = []
    for path in (Path(folder, NAME), *([] if journal is None else [journal])):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            if path.name == NAME:
                raise
            continue  # just removed
        found += [status.st_ino, status.st_mtime_ns]
    return tuple(found)


def finish(folder: Union[str, Path]) -> bool:
    """Complete a change that a kill has interrupted; return whether there was one.

    The caller must hold the lock of one of the two stores' folders.

    Raises:
        OSError: it cannot be written; the valid state does not change.
        RuntimeError: the journal is damaged.
    """
    journal = _journal_of(folder)
    if journal is None:
        return False
    for part, new in _read(journal).items():
        place = _place(journal, part)
        if (place / NAME).exists() and Manifest.read(place).commit < new.commit:
            new.write(place)
    journal.unlink(missing_ok=True)
    return True


def mend(folder: Union[str, Path]) -> None:
    """Call :func:`finish` and log it; for a caller that has just locked one of the two folders.

    Raises:
        FolderInUse: another process has locked the other one.
        OSError, RuntimeError: see :func:`finish`.
    """
    journal = _journal_of(folder)
    if journal is None:
        return
    other = _place(journal, 'windows' if _part(folder, journal) == 'items' else 'items')
    with FolderLock(other) as lock:
        if (other / NAME).exists():
            lock.take()
        if finish(folder):
            text = f'{folder}: a change of items and windows that a kill had cut short is whole now'
            print_log(text, 'current', logging.WARNING)


def cut_short(folder: Union[str, Path]) -> Optional[str]:
    """Return a sentence about an interrupted change of both stores; None: there is none."""
    journal = _journal_of(folder)
    if journal is None or in_use(journal.parent):
        return None
    return (
        'the last change of items and windows was cut short by a kill: searches have all of it, '
        'and its files are put in order when the gallery is next opened for writing'
    )


def _write(items: GalleryStore, windows: GalleryStore) -> None:
    """Write the journal, which commits a change of both stores."""
    if windows.folder != items.folder / WINDOWS:
        raise ValueError(
            f'{items} and {windows} cannot change as one: windows lie in the folder {WINDOWS!r} of '
            'their gallery'
        )
    finish(items.folder)  # or the states in an old journal would be lost
    states = dict(items=asdict(items._unpublished), windows=asdict(windows._unpublished))
    text = json.dumps(dict(sha256=ROOM, format=FORMAT, **states), indent=1).encode()
    write_atomically(items.folder / JOURNAL, lambda file: write_with_digest(text, file))


def _settle(changed: list[GalleryStore]) -> None:
    """Clean up files after a change; errors are only logged, as the change is valid already."""
    try:
        for store in changed:
            finish(store.folder)
            store._sweep()
    except OSError as error:
        text = f'{changed[0]} is changed, but its files could not be put in order: {error}'
        print_log(text, 'current', logging.WARNING)


def _journal_of(folder: Union[str, Path]) -> Optional[Path]:
    """Return the journal that applies to the store in a folder; None: there is none."""
    folder = Path(folder)
    homes = [folder, *([folder.parent] if folder.name == WINDOWS else [])]
    return next((home / JOURNAL for home in homes if (home / JOURNAL).exists()), None)


def _part(folder: Union[str, Path], journal: Optional[Path]) -> str:
    return 'items' if journal is None or journal.parent == Path(folder) else 'windows'


def _place(journal: Path, part: str) -> Path:
    return journal.parent if part == 'items' else journal.parent / WINDOWS


def _read(journal: Path) -> dict[str, Manifest]:
    """Return states by 'items' and 'windows'; an empty dict if the journal was just removed.

    Raises:
        RuntimeError: it is damaged.
    """
    refuse_link(journal)
    try:
        said = read_sealed(journal, (FORMAT,))
    except FileNotFoundError:
        return {}
    if said.keys() != {'items', 'windows'} or not all(isinstance(x, dict) for x in said.values()):
        raise UserError(f'{journal} is damaged: the states of items and windows expected')
    return {part: checked(state, journal) for part, state in said.items()}
