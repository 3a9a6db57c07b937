"""The one small file that says what is valid in a store's folder.

Whatever an add, a delete or a refit writes, it writes beside what is there; then this file takes
the place of the old one in one rename.  So who reads it, or a process that opens the folder after a
kill, has all of the change or nothing of it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from mmvtr.storage import write_atomically

#: Its name, and the version of the format.
NAME, FORMAT = 'store.json', 1


@dataclass(frozen=True)
class Manifest:
    """What is valid.

    Attributes:
        engine: 'lance' or 'faiss'.
        dim: D of the vectors.
        model: fingerprint of the model that made them, None where nobody said.
        about: where they come from.
        commit: goes up by one with every change.
        items: what the engine calls the valid state of its items.
        next: items ever added: item number i has its bias at place i.
        count: items that are there.
        types: of metadata columns, by name.
        biases: name of the file of biases.
        normaliser: name of its file, None: scores as they are.
        highest: no bias is above it.
        refit: options of the last refit.
        online: options of the queue of served queries, None: nothing is kept.
        index: options of the approximate index, None: there is none.
        norms: least and largest norm of the vectors ever added; None: there were none.
    """

    engine: str
    dim: int
    model: Optional[str] = None
    about: dict[str, Any] = field(default_factory=dict)
    commit: int = 0
    items: Any = None
    next: int = 0
    count: int = 0
    types: dict[str, str] = field(default_factory=dict)
    biases: str = 'biases-0.f32'
    normaliser: Optional[str] = None
    highest: float = 0.0
    refit: Optional[dict[str, Any]] = None
    online: Optional[dict[str, Any]] = None
    index: Optional[dict[str, Any]] = None
    norms: Optional[list[float]] = None

    def write(self, folder: Union[str, Path]) -> None:
        """Make this what is valid: the moment of every change."""
        text = json.dumps(dict(format=FORMAT, **asdict(self)), indent=1)
        write_atomically(Path(folder, NAME), lambda file: file.write(text.encode()))

    @classmethod
    def read(cls, folder: Union[str, Path]) -> 'Manifest':
        """What is valid in a folder.

        Raises:
            FileNotFoundError: it holds no store.
            RuntimeError: the file is damaged, or of a newer version.
        """
        path = Path(folder, NAME)
        try:
            said = json.loads(path.read_text(encoding='utf-8'))
        except FileNotFoundError:
            raise FileNotFoundError(f'{folder} holds no store: {NAME} is missing') from None
        except ValueError as error:
            raise RuntimeError(f'{path} is damaged: {str(error)[:80]}') from error
        known = {one.name for one in fields(cls)}
        version = said.pop('format', None) if isinstance(said, dict) else None
        if version != FORMAT or set(said) != known:
            raise RuntimeError(
                f'{path} is of format {str(version)[:80]}, expected {FORMAT}: it is damaged, or of '
                'another version'
            )
        return cls(**said)


def stamp(folder: Union[str, Path]) -> tuple[int, int]:
    """What differs after every change: cheap to ask before every search."""
    status = os.stat(Path(folder, NAME))
    return status.st_ino, status.st_mtime_ns


def append_biases(path: Path, start: int, values: np.ndarray) -> None:
    """Write float32 biases from place ``start`` on; what an unfinished add left there goes."""
    with open(path, 'r+b' if path.exists() else 'w+b') as file:
        file.truncate(4 * start)
        file.seek(4 * start)
        file.write(np.ascontiguousarray(values, dtype='<f4').tobytes())
        file.flush()
        os.fsync(file.fileno())


def map_biases(path: Path, count: int) -> np.ndarray:
    """The first ``count`` biases of a file, read from disk as they are asked for: float32 [count].

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is too short.
    """
    if count == 0:
        return np.zeros(0, np.float32)
    size = os.stat(path).st_size
    if size < 4 * count:
        raise RuntimeError(f'{path} holds {size // 4} biases, {count} expected: it is damaged')
    return np.memmap(path, dtype='<f4', mode='r', shape=(count,))
