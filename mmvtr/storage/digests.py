"""SHA-256 of files, and digests stored inside files of json or tensors.

The writer reserves space for the digest, ``"sha256": "000..."``, in the json at the beginning of
the file.  The digest is computed over all bytes with zeros in that space.
"""

from __future__ import annotations

import hashlib
import math
import re
from pathlib import Path
from typing import BinaryIO, Optional, Union

#: Placeholder of the digest until it is known.
ROOM = '0' * 64

_FIELD = re.compile(rb'"sha256": ?"(.{64})"', re.DOTALL)
_PIECE = 1 << 20


def file_digest(path: Union[str, Path]) -> str:
    """Return the hexadecimal SHA-256 of a file of any size.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, 'rb') as file:
        return digest_of(file).hexdigest()


def write_with_digest(content: bytes, file: BinaryIO) -> None:
    """Write content whose first ``sha256`` field, :data:`ROOM`, is replaced by the digest."""
    start, end = _FIELD.search(content).span(1)
    view = memoryview(content)
    file.write(view[:start])
    file.write(hashlib.sha256(content).hexdigest().encode())
    file.write(view[end:])


def own_digest_holds(head: bytes, rest: BinaryIO) -> Optional[bool]:
    """Return whether the digest stored in a file matches the file.

    Args:
        head: its first bytes, which contain the field.
        rest: the open file, positioned after them.

    Returns:
        None if there is no such field.
    """
    field = _FIELD.search(head)
    if field is None:
        return None
    start, end = field.span(1)
    digest = digest_of(rest, start=head[:start] + ROOM.encode() + head[end:])
    return digest.hexdigest().encode() == field[1]


def digest_of(file: BinaryIO, size: float = math.inf, *, start: bytes = b'') -> hashlib._Hash:
    """Return the SHA-256 of ``start`` and the next ``size`` bytes of a file (default: all)."""
    digest = hashlib.sha256(start)
    while piece := file.read(min(size, _PIECE)):
        digest.update(piece)
        size -= len(piece)
    return digest
