"""Stores of precomputed features: npy files, one hdf5 file, or a BigFile folder.

All return float [F, D] by name (the id of a video or of a text), in the stored dtype.
"""

from __future__ import annotations

import ast
import json
import os
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr.datasets.annotation_files import read_text
from mmvtr.datasets.annotation_values import (
    Place,
    mapping,
    name_of,
    number,
    problem,
    shown,
    strings,
    wrong,
)
from mmvtr.datasets.folders import file_of, missing_files
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.errors import UnknownKey
from mmvtr.storage.arrays import FREE, RATIO, array_in, load_h5py

#: Magic bytes of npz files, which np.load reads under any name.
ZIP = b'PK'


def open_store(path: Path) -> FeatureStore:
    """Return the store at ``path``: an hdf5 file, a BigFile folder, or a folder of npy files.

    Nothing is read until requested.
    """
    if path.suffix in ('.h5', '.hdf5'):
        return Hdf5File(path)
    return BigFile(path) if (path / 'shape.txt').is_file() else NpyFolder(path)


@contextmanager
def broken_videos() -> Iterator[None]:
    """Turn errors of unreadable features into a BrokenVideoError, for ``on_broken``."""
    try:
        yield
    except ValueError as error:
        raise BrokenVideoError(str(error)) from error


class FeatureStore(ABC):
    """Base class of feature stores; subclasses implement :meth:`missing` and :meth:`load`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Names whose features are known to be finite: a process checks once, not in every epoch.
        self._finite: set[str] = set()

    def check(self, names: Sequence[str], what: str) -> None:
        """Raise if features are missing, before any are read.

        Args:
            names: ids of the items.
            what: kind of the items, for the message: ``'videos'`` or ``'texts'``.

        Raises:
            FileNotFoundError: no such store.
            KeyError: it lacks some of the names.
            ValueError: its files are inconsistent; a name that no file can have.
        """
        if not self.path.exists():
            raise FileNotFoundError(f'no such feature file or folder: {name_of(self.path)}')
        missing = self.missing(names)
        if missing:
            raise UnknownKey(
                f'{name_of(self.listed_in)}: no features of {len(missing)} of {len(names)} {what}, '
                f'e.g. {shown(missing[:5])}'
            )

    def read(self, name: str) -> np.ndarray:
        """Return features, float [F, D], F > 0, all finite.

        Raises:
            ValueError: they cannot be read, are not numbers, have another shape, or are not finite
                (names the first row).
        """
        try:
            features = self.load(name)
        except ImportError:
            raise
        except Exception as error:  # numpy and h5py raise anything where a file is damaged
            raise problem(self._place(name), str(error)) from error
        if features.dtype.kind not in 'fiub':
            raise wrong(self._place(name), 'numbers', features.dtype)
        if features.ndim != 2 or len(features) == 0:
            raise problem(self._place(name), f'expected [F, D] with F > 0, found {features.shape}')
        if name not in self._finite:
            self._refuse_not_finite(name, features)
            self._finite.add(name)
        return features

    def _refuse_not_finite(self, name: str, features: np.ndarray) -> None:
        """Raise ValueError unless the features are finite as float32, their later dtype."""
        with np.errstate(over='ignore'):
            wrong = ~np.isfinite(features.astype(np.float32, copy=False))
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            raise problem(
                self._place(name),
                f'{features[row, column]} in row {row}, column {column}: expected finite numbers '
                f'({wrong.any(1).sum()} of {len(features)} rows have others)',
            )

    def _place(self, name: str) -> Place:
        return Place(self.file_of(name), f'features of {shown(name)}')

    @property
    def listed_in(self) -> Path:
        """The file that lists the stored names."""
        return self.path

    def file_of(self, name: str) -> Path:
        """Return the file that holds the features of a name."""
        return self.path

    @abstractmethod
    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the names that the store lacks."""

    @abstractmethod
    def load(self, name: str) -> np.ndarray:
        """Return the features stored under a name."""


class NpyFolder(FeatureStore):
    """A folder with one file ``NAME.npy`` per item."""

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the names without a file; one listing of the folder."""
        missing = set(missing_files(map(self.file_of, names)))
        return [name for name in names if self.file_of(name) in missing]

    def load(self, name: str) -> np.ndarray:
        """Return the content of the name's file."""
        path = self.file_of(name)
        if not path.is_file():  # np.load would read a named pipe forever
            raise ValueError(f'{name_of(path, 80)} is {"not a file" if path.exists() else "gone"}')
        raw = np.fromfile(path, np.uint8)
        if raw[:2].tobytes() == ZIP:
            raise ValueError(f'{name_of(path, 80)} is an npz file, expected what np.save writes')
        return array_in(raw)

    def file_of(self, name: str) -> Path:
        """Return the path of ``NAME.npy``."""
        return file_of(self.path, name, '.npy')


class Hdf5File(FeatureStore):
    """An hdf5 file with one dataset per item.

    Opened once per process: opening a file of 100,000 captions takes 30 times as long as reading
    one of them, and a handle must not be shared across a fork.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file: Any = None
        self._process: Optional[int] = None
        self._most = 0  # maximum bytes of an item

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the names that are not datasets of the file."""
        with self._open() as file:
            try:
                return [name for name in names if name not in file]
            except Exception as error:  # h5py raises anything where a file is damaged
                raise problem(Place(self.path), str(error)) from error

    def load(self, name: str) -> np.ndarray:
        """Return one dataset of the file."""
        if self._process != os.getpid():
            self._file = None  # close an inherited handle before this process opens its own
            self._file, self._process = self._open(), os.getpid()
            self._most = max(FREE, RATIO * self.path.stat().st_size)
        try:
            stored = self._file[name]
        except KeyError:
            if name in self._file:  # the dataset exists but is damaged
                raise
            raise ValueError('not in the file') from None
        if not hasattr(stored, 'shape'):
            raise ValueError('expected an array, found a group')
        if name not in self._finite and stored.nbytes > self._most:
            raise ValueError(f'the file is too small for its array of {stored.nbytes:,} bytes')
        return np.asarray(stored[()])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)  # a copy opens the file for itself

    def _open(self) -> Any:
        h5py = load_h5py(self.path)
        try:
            return h5py.File(self.path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise problem(Place(self.path), str(error)) from error


class BigFile(FeatureStore):
    """A BigFile folder of MS-SL: ``feature.bin``, ``shape.txt``, ``id.txt``, ``video2frames.txt``.

    ``feature.bin`` holds the rows of all videos, little-endian float32; ``shape.txt`` their number
    and width; ``id.txt`` a name for each row, separated by spaces; ``video2frames.txt`` a Python
    dict from a video to the list of its rows' names.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._read: Optional[_Index] = None

    @property
    def listed_in(self) -> Path:
        """Path of ``video2frames.txt``."""
        return self.path / 'video2frames.txt'

    def file_of(self, name: str) -> Path:
        """Return the path of ``feature.bin``, which holds all rows."""
        return self.path / 'feature.bin'

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the videos that ``video2frames.txt`` lacks."""
        rows = self._index().rows
        return [name for name in names if name not in rows]

    def load(self, name: str) -> np.ndarray:
        """Return the rows of one video."""
        index = self._index()
        # Reopened for each video: that is fast, and pickling a memmap would copy the whole file.
        features = np.memmap(self.path / 'feature.bin', '<f4', mode='r', shape=index.shape)
        return features[index.rows[name]]

    def _index(self) -> _Index:
        if self._read is None:
            self._read = _read_index(self.path)
        return self._read


class _Index(NamedTuple):
    """Content of a BigFile's text files.

    ``shape`` is the number of all rows and their width; ``rows`` has row indices, int64 [F], for
    each video.
    """

    shape: tuple[int, int]
    rows: dict[str, np.ndarray]


def _read_index(folder: Path) -> _Index:
    count, width = shape = _read_shape(folder / 'shape.txt')
    size, expected = (folder / 'feature.bin').stat().st_size, 4 * count * width
    if size != expected:
        raise problem(
            Place(folder),
            f'feature.bin has {size} bytes, but {count} rows of {width} float32 (shape.txt) are '
            f'{expected}',
        )
    names = read_text(folder / 'id.txt').split()
    if len(names) != count:
        what = f'id.txt has {len(names)} names for {count} rows (shape.txt)'
        raise problem(Place(folder), what)
    position = {name: i for i, name in enumerate(names)}
    videos = _read_dict(folder / 'video2frames.txt')
    unknown = {name for frames in videos.values() for name in frames} - position.keys()
    if unknown:
        what = f'id.txt lacks {len(unknown)} rows of video2frames.txt'
        raise problem(Place(folder), f'{what}, e.g. {shown(sorted(unknown)[:5])}')
    rows = {video: [position[name] for name in frames] for video, frames in videos.items()}
    return _Index(shape, {video: np.array(row, dtype=np.int64) for video, row in rows.items()})


def _read_shape(path: Path) -> tuple[int, int]:
    words = read_text(path).split()
    if len(words) != 2:
        raise wrong(Place(path), 'two numbers, rows and width', words)
    return number(words[0], Place(path, 'rows')), number(words[1], Place(path, 'width'))


def _read_dict(path: Path) -> dict[str, list[str]]:
    """Parse a Python dict of lists of strings without running code."""
    text, place = read_text(path), Place(path)
    content = _as_json(text)
    try:
        content = ast.literal_eval(text) if content is None else content
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise problem(place, f'not a python dict: {error}') from error
    frames = mapping(content, place)
    return {video: strings(names, place.key(video)) for video, names in frames.items()}


def _as_json(text: str) -> Any:
    """Parse a literal as json with single quotes, or return None: 20 times faster, 1/20 memory."""
    if '"' in text or '\\' in text:
        return None
    try:
        return json.loads(text.replace("'", '"'))
    except (ValueError, RecursionError):
        return None
