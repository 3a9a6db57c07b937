"""Replace an older store by a new one, atomically."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Union

from mmvtr.storage import FolderLock
from mmvtr_gallery.store.folder import FolderStore
from mmvtr_gallery.store.joint import mend
from mmvtr_gallery.store.manifest import FILES, NAME, PART, Manifest, sweep
from mmvtr_gallery.store.opening import create_store


def holds_gallery(folder: Union[str, Path]) -> bool:
    """Return whether a folder holds a store."""
    return Path(folder, NAME).exists()


@contextmanager
def replace_store(folder: Union[str, Path], dim: int, **options: Any) -> Iterator[FolderStore]:
    """Yield a new store that replaces the one in ``folder`` if the block ends without an error.

    Other files in the folder are kept.  At every moment either the old or the new store is
    complete: the new files have other names and are beside the old ones when the new ``store.json``
    replaces the old one by a rename.  Only then are the old files removed.

    Args:
        folder: created if missing.
        dim, options: see :func:`~mmvtr_gallery.store.opening.create_store`.

    Raises:
        FolderInUse: another process writes there.
        ImportError, ValueError, OSError: see :func:`~mmvtr_gallery.store.opening.create_store`.
    """
    folder = Path(folder)
    part = folder / PART
    lock = FolderLock(folder)
    lock.take()
    try:
        mend(folder)
        shutil.rmtree(part, ignore_errors=True)
        with create_store(part, dim, first=_unused(folder), **options) as store:
            yield store
        manifest = Manifest.read(part)
        for name in manifest.files():
            if (part / name).exists():
                os.replace(part / name, folder / name)
        os.replace(part / NAME, folder / NAME)
        sweep(folder, manifest.files())
    finally:
        shutil.rmtree(part, ignore_errors=True)
        lock.release()


def _unused(folder: Path) -> int:
    """Return a change number that no file of a store in the folder has in its name."""
    stores = '|'.join(FILES.values())
    names = [path.name for path in folder.iterdir() if re.fullmatch(stores, path.name)]
    return 1 + max((int(x) for name in names for x in re.findall(r'-(\d+)\.', name)), default=0)
