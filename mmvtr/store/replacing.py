"""A new store in the place of an older one."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Union

from mmvtr.storage import FolderLock
from mmvtr.store.manifest import NAME
from mmvtr.store.old import remove_old
from mmvtr.store.opening import create_store
from mmvtr.store.protocol import GalleryStore

_FILES = ('biases-*.f32', 'normaliser-*.safetensors', 'items-*.safetensors', 'queue.safetensors')
_PART = '.new'


@contextmanager
def replace_store(folder: Union[str, Path], dim: int, **options: Any) -> Iterator[GalleryStore]:
    """A new store, which takes the place of what ``folder`` holds when the block ends well.

    Other files of the folder stay.  A kill before the end of the block leaves the old store.

    Args:
        folder: is made where it is missing.
        dim, options: as of :func:`~mmvtr.store.opening.create_store`.

    Raises:
        FolderInUse: another process writes there.
        ImportError, ValueError, OSError: as of :func:`~mmvtr.store.opening.create_store`.
    """
    folder = Path(folder)
    part = folder / _PART
    lock = FolderLock(folder)
    lock.take()
    try:
        shutil.rmtree(part, ignore_errors=True)
        with create_store(part, dim, **options) as store:
            yield store
        (folder / NAME).unlink(missing_ok=True)
        remove_old(folder)
        shutil.rmtree(folder / 'items.lance', ignore_errors=True)
        for pattern in _FILES:
            for path in folder.glob(pattern):
                path.unlink()
        for path in sorted(part.iterdir(), key=lambda path: path.name == NAME):  # it comes last
            os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        lock.release()
