"""Where precomputed features lie: npy files, one hdf5 file, or a BigFile folder.

All give float [F, D] by name (the id of a video or of a text), in the dtype that is stored.
"""

from __future__ import annotations

import ast
import io
import json
import os
from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr.datasets.annotation_files import strings
from mmvtr.datasets.files import missing_files

#: What npy files of the usual format begin with.
NPY_1_0 = b'\x93NUMPY\x01\x00'


def open_store(path: Path) -> FeatureStore:
    """The store at ``path``: a ``.h5`` or ``.hdf5`` file, a BigFile folder, a folder of npy files.

    Nothing is read before it is asked for.
    """
    if path.suffix in ('.h5', '.hdf5'):
        return Hdf5File(path)
    return BigFile(path) if (path / 'shape.txt').is_file() else NpyFolder(path)


class FeatureStore(ABC):
    """Features by name: implement :meth:`missing` and :meth:`load`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self, names: Sequence[str], what: str) -> None:
        """See that all are there, before anything is read.

        Args:
            names: ids of the items.
            what: the items are, for the message: ``'videos'`` or ``'texts'``.

        Raises:
            FileNotFoundError: no such store.
            KeyError: it lacks some of the names.
            ValueError: its files do not fit each other.
        """
        if not self.path.exists():
            raise FileNotFoundError(f'no such feature file or folder: {self.path}')
        missing = self.missing(names)
        if missing:
            raise KeyError(
                f'{self.path}: no features of {len(missing)} of {len(names)} {what}, '
                f'e.g. {missing[:5]}'
            )

    def read(self, name: str) -> np.ndarray:
        """Float [F, D] with F > 0.

        Raises:
            ValueError: they cannot be read, or are of another shape.
        """
        try:
            features = self.load(name)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f'{self.path}: features of {name!r}: {error}') from error
        if not isinstance(features, np.ndarray):  # np.load gives archives, too
            raise ValueError(f'{self.path}: features of {name!r} are no array but a zip archive')
        if features.ndim != 2 or len(features) == 0:
            raise ValueError(
                f'{self.path}: features of {name!r} are {features.shape}, '
                'expected [F, D] with F > 0'
            )
        return features

    @abstractmethod
    def missing(self, names: Sequence[str]) -> list[str]:
        """Those of the names that it lacks."""

    @abstractmethod
    def load(self, name: str) -> np.ndarray:
        """What is stored under a name."""


class NpyFolder(FeatureStore):
    """A folder with a file ``NAME.npy`` for each item."""

    def missing(self, names: Sequence[str]) -> list[str]:
        """By one listing of the folder."""
        missing = set(missing_files(map(self._file, names)))
        return [name for name in names if self._file(name) in missing]

    def load(self, name: str) -> np.ndarray:
        """Read the whole file.

        As np.load does, which takes longer to parse a header than to read small features; the files
        of a folder have few different headers.
        """
        path = self._file(name)
        raw = np.fromfile(path, np.uint8)
        if raw[:8].tobytes() != NPY_1_0:
            return np.load(path)
        end = 10 + int.from_bytes(raw[8:10].tobytes(), 'little')
        shape, fortran, dtype = _layout(raw[8:end].tobytes())
        if dtype.hasobject:
            return np.load(path)  # refuses it
        return raw[end:].view(dtype).reshape(shape, order='F' if fortran else 'C')

    def _file(self, name: str) -> Path:
        return self.path / f'{name}.npy'


@lru_cache(maxsize=256)
def _layout(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns come first, and type, of an npy file of format 1.0."""
    return np.lib.format.read_array_header_1_0(io.BytesIO(header))


class Hdf5File(FeatureStore):
    """A hdf5 file with a dataset for each item.

    Opened once a process, because opening a file of 100,000 captions takes 30 times as long as
    reading one of them; and once in every process, because a handle must not cross a fork.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file: Any = None
        self._process: Optional[int] = None

    def missing(self, names: Sequence[str]) -> list[str]:
        """By a look-up each."""
        with self._open() as file:
            return [name for name in names if name not in file]

    def load(self, name: str) -> np.ndarray:
        """Read one dataset."""
        if self._process != os.getpid():
            self._file = None  # closes one that was inherited, before this process opens its own
            self._file, self._process = self._open(), os.getpid()
        return self._file[name][()]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)  # a copy opens the file for itself

    def _open(self) -> Any:
        try:
            import h5py  # an extra: only those who have hdf5 files need it
        except ImportError as error:
            raise ImportError(f'{self.path}: reading hdf5 needs `pip install h5py`') from error
        return h5py.File(self.path)


class BigFile(FeatureStore):
    """A folder of ``feature.bin``, ``shape.txt``, ``id.txt`` and ``video2frames.txt``, as MS-SL's.

    ``feature.bin`` holds the rows of all videos, float32 in little-endian order; ``shape.txt``
    their number and width; ``id.txt`` a name for each row, space between; ``video2frames.txt`` a
    python dict from a video to the list of its rows' names.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._read: Optional[_Index] = None

    def missing(self, names: Sequence[str]) -> list[str]:
        """Videos that ``video2frames.txt`` does not name."""
        rows = self._index().rows
        return [name for name in names if name not in rows]

    def load(self, name: str) -> np.ndarray:
        """Read the rows of one video."""
        index = self._index()
        # Opened anew each time: that is quick, and to pickle a memmap is to pickle the whole file.
        features = np.memmap(self.path / 'feature.bin', '<f4', mode='r', shape=index.shape)
        return features[index.rows[name]]

    def _index(self) -> _Index:
        if self._read is None:
            self._read = _read_index(self.path)
        return self._read


class _Index(NamedTuple):
    """What the text files of a BigFile say.

    ``shape`` is the number of all rows and their width; ``rows`` has int64 [F] for each video.
    """

    shape: tuple[int, int]
    rows: dict[str, np.ndarray]


def _read_index(folder: Path) -> _Index:
    count, width = shape = _read_shape(folder / 'shape.txt')
    size, expected = (folder / 'feature.bin').stat().st_size, 4 * count * width
    if size != expected:
        raise ValueError(
            f'{folder}: feature.bin has {size} bytes, but {count} rows of {width} float32 '
            f'(shape.txt) are {expected}'
        )
    names = (folder / 'id.txt').read_text(encoding='utf-8').split()
    if len(names) != count:
        raise ValueError(f'{folder}: id.txt has {len(names)} names for {count} rows (shape.txt)')
    position = {name: i for i, name in enumerate(names)}
    videos = _read_dict(folder / 'video2frames.txt')
    unknown = {name for own in videos.values() for name in own} - position.keys()
    if unknown:
        raise ValueError(
            f'{folder}: id.txt lacks {len(unknown)} rows of video2frames.txt, '
            f'e.g. {sorted(unknown)[:5]}'
        )
    rows = {video: [position[name] for name in own] for video, own in videos.items()}
    return _Index(shape, {video: np.array(own, dtype=np.int64) for video, own in rows.items()})


def _read_shape(path: Path) -> tuple[int, int]:
    words = path.read_text(encoding='utf-8').split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        raise ValueError(f'{path}: expected two numbers, rows and width, found {words[:5]}')
    return int(words[0]), int(words[1])


def _read_dict(path: Path) -> dict[str, list[str]]:
    """A python dict of lists of strings, of which nothing is run."""
    text = path.read_text(encoding='utf-8')
    content = _as_json(text)
    try:
        content = ast.literal_eval(text) if content is None else content
    except (ValueError, SyntaxError, RecursionError) as error:
        raise ValueError(f'{path} is not a python dict: {error}') from error
    if not isinstance(content, dict):
        raise ValueError(f'{path}: expected a dict, found {type(content).__name__}')
    return {video: strings(own, f'{path}: {video!r}') for video, own in content.items()}


def _as_json(text: str) -> Any:
    """A literal that is json but for its quotes, else None: 20 times faster, 1/20 of the memory."""
    if '"' in text or '\\' in text:
        return None
    try:
        return json.loads(text.replace("'", '"'))
    except ValueError:
        return None
