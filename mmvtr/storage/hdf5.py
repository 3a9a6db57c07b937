"""hdf5 files that are there as a whole or not at all (h5py, an extra)."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

from mmvtr.storage.atomic import naming, part_name


def load_h5py(path: Path) -> Any:
    """Return the module h5py, or raise with the extra to install.

    Args:
        path: of the file that needs it, for the error.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f'{path}: hdf5 needs `pip install h5py`') from error
    return h5py


@contextmanager
def new_hdf5(path: Path, *, keep: bool = False) -> Iterator[Any]:
    """Open an h5py.File for writing that replaces ``path`` if the block ends without an error.

    Args:
        path: of the file; its folder is made.
        keep: begin with what the file holds already.

    Raises:
        ImportError: h5py is not installed.
        OSError: it cannot be written.
    """
    h5py = load_h5py(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(part_name(path))
    try:
        with naming(path):
            if keep and path.is_file():
                shutil.copyfile(path, part)
            with h5py.File(part, 'a') as file:
                yield file
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def name_in_hdf5(name: str, what: str) -> str:
    """Return the hdf5 dataset name of an item.

    Args:
        name: of the item.
        what: the item is, for the error: ``'video'`` or ``'text'``.

    Raises:
        ValueError: it has a slash, which would mean a group in the file.
    """
    if '/' in name:
        raise ValueError(f'{what} id {name[:80]!r}: no slash is possible in hdf5, take npy')
    return name
