"""The file of biases: float32 by item number, read from disk as they are asked for."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Optional

import numpy as np

from mmvtr.storage import naming


def append_biases(path: Path, start: int, values: np.ndarray, before: Optional[Any] = None) -> str:
    """Write biases from place ``start`` on; what an unfinished add left there goes.

    Args:
        path: of the file, which is made where it is missing.
        start: biases that stay.
        values: float32 [n].
        before: hashlib's SHA-256 of those that stay; None: of a file that begins.

    Returns:
        SHA-256 of all biases then.
    """
    raw = np.ascontiguousarray(values, dtype='<f4').tobytes()
    with naming(path), open(path, 'r+b' if path.exists() else 'w+b') as file:
        file.truncate(4 * start)
        file.seek(4 * start)
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    digest = hashlib.sha256() if before is None else before.copy()
    digest.update(raw)
    return digest.hexdigest()


def read_biases(path: Path, count: int, expected: Optional[str]) -> tuple[np.ndarray, Any]:
    """The first biases of a file: float32 [count], and hashlib's SHA-256 of them.

    Args:
        path: of the file.
        count: of biases.
        expected: their SHA-256; None: nobody knows it.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is too short, or was damaged.
    """
    size = os.stat(path).st_size
    if size < 4 * count:
        raise RuntimeError(f'{path} holds {size // 4} biases, {count} expected: it is damaged')
    biases = np.zeros(0, np.float32)
    if count:
        biases = np.memmap(path, dtype='<f4', mode='r', shape=(count,))
    digest = hashlib.sha256(biases)
    if expected not in (None, digest.hexdigest()):
        raise RuntimeError(
            f'{path} is damaged: the biases do not have the SHA-256 that they were written with; '
            'find them anew by a refit of an undamaged copy, or export the gallery again'
        )
    return biases, digest
