"""Changes of a few bytes in mp4 and avi files: what muxers of good will do not write."""

from __future__ import annotations

import struct
from typing import Iterator

CONTAINERS = (b'moov', b'trak', b'mdia', b'minf', b'stbl', b'edts')


def boxes(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[tuple[bytes, int, int]]:
    """(type, first byte of the content, end) of all boxes of an mp4, those inside of others too."""
    end = len(data) if end is None else end
    while begin + 8 <= end:
        size, kind = struct.unpack_from('>I4s', data, begin)
        head = 8
        if size == 1:
            (size,), head = struct.unpack_from('>Q', data, begin + 8), 16
        stop = begin + size if size else end
        yield kind, begin + head, stop
        if kind in CONTAINERS:
            yield from boxes(data, begin + head, stop)
        begin = stop


def of_video(data: bytes, kind: bytes) -> tuple[int, int]:
    """Where the content of a box of the video track is.

    Raises:
        ValueError: there is none.
    """
    for name, begin, end in boxes(data):
        if name == b'trak':
            inside = list(boxes(data, begin, end))
            if any(n == b'hdlr' and data[b + 8 : b + 12] == b'vide' for n, b, _ in inside):
                for found, first, last in inside:
                    if found == kind:
                        return first, last
    raise ValueError(f'no box {kind!r} in the video track')


def turned(data: bytes, matrix: tuple[int, int, int, int], width: int, height: int) -> bytes:
    """With a display matrix, moved so that the picture lies at the origin as cameras write it."""
    a, b, c, d = matrix
    x = (width if a < 0 else 0) + (height if c < 0 else 0)
    y = (width if b < 0 else 0) + (height if d < 0 else 0)
    first, _ = of_video(data, b'tkhd')
    place = first + (52 if data[first] else 40)
    one = 1 << 16
    values = (a * one, b * one, 0, c * one, d * one, 0, x * one, y * one, 1 << 30)
    return data[:place] + struct.pack('>9i', *values) + data[place + 36 :]


def without_key_list(data: bytes) -> bytes:
    """The list of key frames becomes a free box: all frames are said to be key frames."""
    first, _ = of_video(data, b'stss')
    return data[: first - 4] + b'free' + data[first:]


def with_key_list(data: bytes, samples: list[int]) -> bytes:
    """Other key frames are listed: as many ``samples`` (from 1, increasing) as there were."""
    first, _ = of_video(data, b'stss')
    (count,) = struct.unpack_from('>I', data, first + 4)
    if count != len(samples):
        raise ValueError(f'{count} key frames, not {len(samples)}')
    return data[: first + 8] + struct.pack(f'>{count}I', *samples) + data[first + 8 + 4 * count :]


def key_count(data: bytes) -> int:
    """How many key frames are listed."""
    first, _ = of_video(data, b'stss')
    return struct.unpack_from('>I', data, first + 4)[0]


def with_edit(data: bytes, first_shown: float, seconds: float) -> bytes:
    """Only ``seconds`` from ``first_shown`` seconds on are shown: a cut that encodes nothing.

    The file has one edit, as ffmpeg writes it of a track that starts at 0.
    """
    begin, _ = of_video(data, b'elst')
    (count,) = struct.unpack_from('>I', data, begin + 4)
    if data[begin] or count != 1:
        raise ValueError('one edit of 32 bits expected')
    header = next(first for kind, first, _ in boxes(data) if kind == b'mvhd')
    (movie,) = struct.unpack_from('>I', data, header + 12)
    media = struct.unpack_from('>I', data, of_video(data, b'mdhd')[0] + 12)[0]
    (was,) = struct.unpack_from('>i', data, begin + 12)
    edit = (round(seconds * movie), was + round(first_shown * media))
    return data[: begin + 8] + struct.pack('>Ii', *edit) + data[begin + 16 :]
