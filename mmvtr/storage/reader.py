"""Writing of ``torch.save`` files with a digest, and reading of them as plain data only.

Independent of torch's version and environment variables, only tensors and plain data are returned:
no object that the file names, and no code.
"""

from __future__ import annotations

import logging
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Optional, Union
from zipfile import ZipFile, ZipInfo

import torch
from mmengine.dist import is_main_process
from mmengine.logging import print_log

from mmvtr.errors import UserError
from mmvtr.storage.atomic import write_atomically
from mmvtr.storage.digests import digest_of

#: First bytes of files written by ``torch.save`` before torch 1.6: a pickled number.
_LEGACY = b'\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.'


def read_plain(path: Union[str, Path], *, kind: str, map_location: Any = 'cpu') -> Any:
    """Return the tensors and plain data of a file, without running code.

    A file with a digest (:mod:`mmvtr.storage.reader`) is read only if the digest matches. A file
    without one is read with a warning; in an archive the checksums of its records must match.

    Args:
        path: the file.
        kind: its name in error messages, e.g. 'checkpoint'.
        map_location: as for ``torch.load``.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it cannot be read, is damaged, is not a file of ``torch.save``, or holds more
            than tensors and plain data.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f'{kind} {path} does not exist')
    try:
        with open(path, 'rb') as file:
            problem = _examine(file, f'{kind} {path}')
            if problem is None:
                file.seek(0)
                # mmap=False: torch's default may be to use mmap, which needs a path.
                return torch.load(file, map_location=map_location, weights_only=True, mmap=False)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    except Exception as error:  # a damaged pickle can raise anything
        raise UserError(f'{kind} {path} cannot be read: {_reason(error)}') from error
    raise UserError(f'{kind} {path} cannot be read: {problem}')


def _examine(file: BinaryIO, name: str) -> Optional[str]:
    """Return why a file must not be read; warn if it has no digest."""
    start = file.read(len(_LEGACY))
    if start == _LEGACY:
        _warn(f'{name} is of an old format: nothing tells whether it is damaged')
        return None
    if not start.startswith(ZIP):
        return f'it is not a file of torch.save, or it is damaged; it begins with {start!r}'
    holds = digest_holds(file)
    if holds is False:
        return 'it is damaged: its bytes do not have the SHA-256 that it was written with'
    with ZipFile(file) as archive:
        names = archive.namelist()
        if holds is None and was_sealed(archive):
            return 'it is damaged: the SHA-256 at its end is gone'
        if any(name.endswith('/constants.pkl') for name in names):
            return 'it is a TorchScript archive, which is a program, not plain data'
        wrong = None if holds else archive.testzip()
    if wrong is not None:
        return f'it is damaged: the checksum of its record {wrong[-80:]!r} does not hold'
    if not holds:
        _warn(f'{name} has no digest (an older version or others wrote it); its checksums hold')
    return None


@cache
def _warn(text: str) -> None:
    """Warn once per file, on one process."""
    if is_main_process():
        print_log(text, 'current', logging.WARNING)


def _reason(error: Exception) -> str:
    """Return torch's error without its advice to disable the check."""
    refused = re.search(r'GLOBAL (\S+)', str(error))
    if refused:
        return f'it asks for {refused[1][:80]}, and only tensors and plain data are read'
    return f'it is damaged, or holds more than tensors and plain data ({type(error).__name__})'


#: Magic bytes of a zip archive.
ZIP = b'PK\x03\x04'

_LABEL = b'mmvtr sha256 '
_RECORD = '.data/mmvtr_digest'
_DIGITS = 64


def write_plain(content: Any, path: Union[str, Path]) -> None:
    """Write tensors and plain data atomically, with a digest."""

    def write(file: BinaryIO) -> None:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch's message about a full disk, raised while cleaning up
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
        seal(file)

    write_atomically(path, write)


def seal(file: BinaryIO) -> None:
    """Append record and digest to an archive of ``torch.save``.

    Args:
        file: open for writing and reading; of any size, as it is read in chunks.
    """
    with ZipFile(file, 'a') as archive:
        root = archive.namelist()[0].split('/')[0]  # torch requires all records in one folder
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
