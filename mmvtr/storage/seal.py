"""A digest of a whole file of ``torch.save``, at the file's end.

The file is a zip archive.  Its comment, which ends it, holds the SHA-256 of all bytes before; a
record in it says that there is one, so that a digest that is gone is not taken for one that never
was.  ``torch.load`` and unzip read past both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Optional, Union
from zipfile import ZipFile, ZipInfo

import torch

from mmvtr.storage.atomic import write_atomically
from mmvtr.storage.digests import digest_of

#: What the first bytes of a zip archive are.
ZIP = b'PK\x03\x04'

_LABEL = b'mmvtr sha256 '
_RECORD = '.data/mmvtr_digest'
_DIGITS = 64


def write_plain(content: Any, path: Union[str, Path]) -> None:
    """Write tensors and plain data atomically, with a digest."""

    def write(file: BinaryIO) -> None:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch's own words of a full disk, said in its clean-up
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
        seal(file)

    write_atomically(path, write)


def seal(file: BinaryIO) -> None:
    """Append record and digest to an archive of ``torch.save``.

    Args:
        file: open for writing and reading; it may be of any size, as it is read in pieces.
    """
    with ZipFile(file, 'a') as archive:
        root = archive.namelist()[0].split('/')[0]  # torch wants all records in one folder
        archive.writestr(ZipInfo(f'{root}/{_RECORD}'), 'sha256')
        archive.comment = _LABEL + bytes(_DIGITS)
    digest = _digest(file)
    file.seek(-_DIGITS, 2)
    file.write(digest)


def digest_holds(file: BinaryIO) -> Optional[bool]:
    """Return whether the digest at the end of a file matches the file; None if there is none."""
    size = file.seek(0, 2)
    file.seek(max(0, size - len(_LABEL) - _DIGITS))
    end = file.read()
    if not end.startswith(_LABEL):
        return None
    return _digest(file) == end[-_DIGITS:]


def was_sealed(archive: ZipFile) -> bool:
    """Return whether an archive states that it has a digest."""
    return any(name.endswith(f'/{_RECORD}') for name in archive.namelist())


def _digest(file: BinaryIO) -> bytes:
    """Return the hexadecimal SHA-256 of all but the last 64 bytes."""
    size = file.seek(0, 2) - _DIGITS
    file.seek(0)
    return digest_of(file, size).hexdigest().encode()
