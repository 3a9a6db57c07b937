"""Thumbnails (film strips) of listed videos, and byte ranges of their files."""

from __future__ import annotations

import mimetypes
import os
import re
import threading
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO, Callable, Iterator, NamedTuple, Optional, Union

import cv2
import numpy as np

from mmvtr.datasets.videos.film_strip import film_strip
from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr_gallery.serving.library import ListedFiles
from mmvtr_gallery.store import Item

#: Bytes read from a file at a time.
CHUNK = 256 * 1024


class Range(NamedTuple):
    """Bytes ``first`` to ``last``, both included."""

    first: int
    last: int


class Unsatisfiable(ValueError):
    """A range that begins after the end of the file."""


def byte_range(header: Optional[str], size: int) -> Optional[Range]:
    """Return the bytes that a Range header requests of ``size``; None for all.

    A header that is malformed, of another unit or of several ranges is ignored, as RFC 9110
    (Sec. 14.2) allows.

    Raises:
        Unsatisfiable: it begins after the end, or requests the last 0 bytes.
    """
    found = re.fullmatch(r'bytes=([0-9]{0,18})-([0-9]{0,18})', (header or '').replace(' ', ''))
    if found is None or found.groups() == ('', ''):
        return None
    first, last = found.groups()
    if not first:  # a suffix range: the last bytes
        count = min(int(last), size)
        if not count:
            raise Unsatisfiable(f'the range is not in the file, which has {size} bytes')
        return Range(size - count, size - 1)
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise Unsatisfiable(f'the range is not in the file, which has {size} bytes')
    return Range(int(first), min(int(last), size - 1) if last else size - 1)


def read_range(file: BinaryIO, first: int, length: int) -> Iterator[bytes]:
    """Yield ``length`` bytes of an open file from offset ``first`` on in chunks; close it."""
    with file:
        file.seek(first)
        while length > 0:
            data = file.read(min(CHUNK, length))
            if not data:  # the file was truncated meanwhile
                return
            length -= len(data)
            yield data


def media_type(path: Union[str, Path]) -> str:
    """Return the media type of a video file by its suffix; other files are plain bytes."""
    kind = mimetypes.guess_type(str(path))[0] or ''
    return kind if kind.startswith('video/') else 'application/octet-stream'


class Strips:
    """Film strips as JPEG, with a cache of recent ones.

    Args:
        files: opens the files of items.
        capacity: bytes of the cache.
        height: pixels.
        decoders: videos decoded at a time.
    """

    def __init__(
        self,
        files: ListedFiles,
        *,
        capacity: int = 64 * 2**20,
        height: int = 112,
        decoders: int = 2,
    ) -> None:
        self._files, self._capacity, self._height = files, capacity, height
        self._kept: OrderedDict[tuple, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._decoding = threading.Semaphore(decoders)

    def __call__(self, item: Item, frames: int) -> bytes:
        """Return one picture of frames side by side, spread evenly over an item.

        Raises:
            BrokenVideoError: the file cannot be read.
            Outside, FileNotFoundError: see :meth:`~mmvtr_gallery.serving.library.ListedFiles.open`.
        """
        path = self._files.path(item)
        key = (str(path), item.start, item.end, frames, os.stat(path).st_mtime_ns)
        return self._remembered(key, lambda: self._draw(item, path, frames))

    def _remembered(self, key: tuple, make: Callable[[], bytes]) -> bytes:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with self._decoding:
            made = make()
        with self._lock:
            if key not in self._kept and len(made) <= self._capacity:
                self._kept[key] = made
                self._size += len(made)
            while self._size > self._capacity:
                self._size -= len(self._kept.popitem(last=False)[1])
        return made

    def _draw(self, item: Item, path: Path, frames: int) -> bytes:
        times = {key: x for key, x in (('start', item.start), ('end', item.end)) if x is not None}
        strip = film_strip(dict(path=path, **times), (), num_frames=frames, height=self._height)
        if strip.lacking:
            raise BrokenVideoError(f'the file of {item.id[:80]!r} cannot be decoded')
        picture = np.concatenate(list(strip.frames), axis=1)
        fits, data = cv2.imencode('.jpg', picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])
        if not fits:
            raise BrokenVideoError(f'the frames of {item.id[:80]!r} do not fit into a picture')
        return data.tobytes()
