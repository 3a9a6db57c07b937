"""Arrays of numbers or strings from npy and npz files, checked before memory is allocated.

Headers are not trusted: the size of the shape must match that of the file, and an archive may
unpack to at most :data:`RATIO` times its size (beyond :data:`FREE`) and this machine's memory.
Objects, which are pickles, are not read.
"""

from __future__ import annotations

import io
import math
import os
import shutil
import stat
import warnings
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Union
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from mmvtr.storage.atomic import naming, part_name, write_atomically

#: Magic bytes of npy files; the next two bytes are the version.
NPY = b'\x93NUMPY'

#: Maximum ratio of an archive's unpacked size to its size; bytes up to which it is ignored.
RATIO, FREE = 200, 256 << 20

#: Maximum bytes of a header, numpy's own limit.
LONGEST_HEADER = 10_000

#: Bytes unpacked at a time.
CHUNK = 1 << 20


def write_array(path: Union[str, Path], array: np.ndarray) -> None:
    """Write an .npy file atomically.

    Raises:
        OSError: it cannot be written.
    """
    write_atomically(path, lambda file: np.save(file, array))


def write_arrays(path: Union[str, Path], **arrays: np.ndarray) -> None:
    """Write named arrays as an .npz file atomically; see :func:`write_array`."""
    write_atomically(path, lambda file: np.savez(file, **arrays))


class Layout(NamedTuple):
    """The header of an .npy file: shape, column order and type."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype


def read_array(path: Union[str, Path]) -> np.ndarray:
    """Return the array of an .npy file in native byte order.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read, is not an npy file, is too short or too long for its shape,
            or holds neither numbers nor strings; names the file.
    """
    with _in_words(path, '.npy'):
        if _size(path) > memory():
            raise ValueError(f'its {_size(path):,} bytes are more than this machine has memory')
        return array_in(np.fromfile(path, np.uint8))


def array_names(path: Union[str, Path]) -> list[str]:
    """Return the names of the arrays in an .npz file.

    Raises:
        FileNotFoundError, ValueError: see :func:`read_arrays`.
    """
    with _in_words(path, '.npz'):
        _size(path)
        with ZipFile(path) as archive:
            return [*_members(archive)]


def read_arrays(
    path: Union[str, Path], names: Optional[Iterable[str]] = None
) -> dict[str, np.ndarray]:
    """Return named arrays of an .npz file, each as by :func:`read_array`.

    Args:
        path: the file.
        names: names of the arrays to read, which must exist; default all.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read, is not an archive of arrays, is damaged, unpacks to too much,
            or an array holds neither numbers nor strings; names the file and the array.
    """
    with _in_words(path, '.npz'):
        size = _size(path)
        with ZipFile(path) as archive:
            members = _members(archive)
            missing = {*(names or ())} - members.keys()
            if missing:
                raise ValueError(f'it has no array {min(missing)[:80]!r}')
            chosen = {name: members[name] for name in (members if names is None else names)}
            unpacked = sum(member.file_size for member in chosen.values())
            if unpacked > min(memory(), max(FREE, RATIO * size)):
                raise ValueError(
                    f'its {size:,} bytes unpack to {unpacked:,}, which is more than {RATIO} times '
                    "as many, or than this machine's memory"
                )
            return {name: _unpacked(archive, name, chosen[name]) for name in chosen}


def array_in(raw: np.ndarray) -> np.ndarray:
    """Return the array of an .npy file held in memory, without a copy if possible.

    Args:
        raw: uint8 [N], the whole file.

    Raises:
        ValueError: it is not one, see :func:`read_array`.
    """
    start = raw[:12].tobytes()
    if start[:6] != NPY:
        raise ValueError(f'it begins with {start[:8]!r}, which numpy.save never writes')
    if start[6:8] not in (b'\1\0', b'\2\0'):
        raise ValueError(f'its version is {start[6:8]!r}, expected 1.0 or 2.0')
    begin = 10 if start[6] == 1 else 12
    end = begin + int.from_bytes(start[8:begin], 'little')
    if end - begin > LONGEST_HEADER:
        raise ValueError(f'its header has {end - begin:,} bytes, expected {LONGEST_HEADER} at most')
    shape, fortran, dtype = _layout(start[6], raw[8:end].tobytes())
    expected = dtype.itemsize * math.prod(shape)
    if len(raw) - end != expected:
        raise ValueError(
            f'{max(len(raw) - end, 0):,} bytes follow its header, expected {expected:,} for the '
            f'shape {str(list(shape))[:80]} of {dtype}'
        )
    array = raw[end:].view(dtype).reshape(shape, order='F' if fortran else 'C')
    if array.flags.aligned and dtype.isnative:
        return array
    return array.astype(dtype.newbyteorder('='))


def memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')


@lru_cache(maxsize=256)  # files of a folder share few different headers, which numpy parses slowly
def _layout(version: int, header: bytes) -> Layout:
    """Return the layout stated by a header."""
    read = getattr(np.lib.format, f'read_array_header_{version}_0')
    try:
        with warnings.catch_warnings():  # about a header of Python 2, which is read as well
            warnings.simplefilter('ignore')
            layout = Layout(*read(io.BytesIO(header)))
    except Exception as error:  # the parser can raise anything on a damaged header
        raise ValueError(f'its header is damaged: {str(error)[:80]}') from error
    if layout.dtype.hasobject:
        raise ValueError(
            'it holds python objects, which are not read (np.array(x, dtype=str) makes strings of '
            'them, np.array(x, dtype=float) numbers)'
        )
    if layout.dtype.kind not in 'biufcSU' or not layout.dtype.itemsize:
        raise ValueError(f'expected numbers or strings, found {str(layout.dtype)[:80]}')
    if min(layout.shape, default=0) < 0:
        raise ValueError(f'its header is damaged: a shape of {str(layout.shape)[:80]}')
    return layout


def _size(path: Union[str, Path]) -> int:
    """Return the size of a regular file; raise for others (reading a named pipe would block)."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError('it is a folder or a pipe')
    return status.st_size


def _members(archive: ZipFile) -> dict[str, ZipInfo]:
    """Return the members of an archive by array name."""
    members: dict[str, ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix('.npy')
        if name in members:
            raise ValueError(f'a second array {name[:80]!r}')
        if name != member.filename:
            members[name] = member
    return members


def _unpacked(archive: ZipFile, name: str, member: ZipInfo) -> np.ndarray:
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f'array {name[:80]!r} is packed in a way that numpy never does')
    raw, done = np.empty(member.file_size, np.uint8), 0
    with archive.open(member) as file:  # a wrong checksum raises an error at the end
        while done < len(raw) and (chunk := file.read(CHUNK)):
            raw[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
            done += len(chunk)
    try:
        return array_in(raw[:done])
    except ValueError as error:
        raise ValueError(f'array {name[:80]!r}: {error}') from error


@contextmanager
def _in_words(path: Union[str, Path], kind: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f'{path} does not exist') from None
    except OSError as error:
        raise ValueError(f'{path} cannot be read: {error.strerror or error}') from error
    except Exception as error:  # a damaged archive can raise anything
        reason = str(error) or type(error).__name__
        raise ValueError(
            f'{path} is not a {kind} file of numbers or strings: {reason[:240]}'
        ) from error


def load_h5py(path: Path) -> Any:
    """Return the module h5py; the ImportError names the extra to install.

    Args:
        path: path of the file that needs it, for the error.

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
        path: path of the file; its folder is created.
        keep: start with the present content of the file.

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
        name: name of the item.
        what: kind of the item, for the error: ``'video'`` or ``'text'``.

    Raises:
        ValueError: it has a slash, which would mean a group in the file.
    """
    if '/' in name:
        raise ValueError(f'{what} id {name[:80]!r}: no slash is possible in hdf5, take npy')
    return name
