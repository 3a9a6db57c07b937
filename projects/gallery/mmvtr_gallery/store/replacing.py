"""A new store in the place of an older one."""

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
    """Whether there is a store."""
    return Path(folder, NAME).exists()


@contextmanager
def replace_store(folder: Union[str, Path], dim: int, **options: Any) -> Iterator[FolderStore]:
    """A new store, which takes the place of what ``folder`` holds when the block ends well.

    Other files of the folder stay.  At every moment the old store or the new one is there, whole:
    the files of the new one are called otherwise, and lie beside those of the old one when
    ``store.json`` takes its place in one rename.  Only then those of the old one are removed.

    Args:
        folder: is made where it is missing.
        dim, options: as of :func:`~mmvtr_gallery.store.opening.create_store`.

    Raises:
        FolderInUse: another process writes there.
        ImportError, ValueError, OSError: as of :func:`~mmvtr_gallery.store.opening.create_store`.
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
    """A number that no file of a store in the folder is called by."""
    stores = '|'.join(FILES.values())
    names = [path.name for path in folder.iterdir() if re.fullmatch(stores, path.name)]
    return 1 + max((int(x) for name in names for x in re.findall(r'-(\d+)\.', name)), default=0)
