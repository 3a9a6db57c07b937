"""Uploaded videos that are stored: each becomes a file of the library, and an item."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from mmvtr_gallery.serving.library import Library, Outside
from mmvtr_gallery.serving.media import media_type

#: Prefix of files being received, and the age in seconds at which they count as leftovers.
PART, LEFT = '.mmvtr-upload-', 3600


class NameTaken(FileExistsError):
    """The library already has a file of that name."""


@contextmanager
def received(library: Library, name: str) -> Iterator[Path]:
    """Yield a file to write; it joins the library if the block ends without an error.

    It is written directly into the library's folder, never below it, so that no symbolic link can
    lead elsewhere.

    Args:
        name: a plain file name with the suffix of a video.

    Raises:
        Outside: there is no library, or the name is not such a name.
        NameTaken: a file of that name exists; it is not changed.
        OSError: it cannot be written.
    """
    if library.folder is None:
        raise Outside('this service was started without a library: no file can be added')
    plain = name == os.path.basename(name) and name.isprintable() and '\\' not in name
    if not plain or name.startswith('.') or len(name.encode()) > 200:
        raise Outside(f'{name[:80]!r} is not the plain name of a file')
    if not media_type(name).startswith('video/'):
        raise Outside(f'{name[:80]!r} does not end as the names of videos do, such as .mp4')
    path = library.folder / name
    if os.path.lexists(path):
        raise _taken(name)
    _sweep(library.folder)
    handle, part = tempfile.mkstemp(prefix=PART, dir=library.folder)
    os.close(handle)
    try:
        yield Path(part)
        os.chmod(part, 0o644)
        try:
            os.link(part, path)
        except FileExistsError:
            raise _taken(name) from None
    finally:
        os.unlink(part)


def _sweep(folder: Path) -> None:
    """Remove the leftovers of killed uploads."""
    for path in folder.glob(f'{PART}*'):
        if time.time() - path.lstat().st_mtime > LEFT:
            path.unlink(missing_ok=True)


def _taken(name: str) -> NameTaken:
    return NameTaken(f'the library has a file {name[:80]!r} already: send it under another name')
