"""Size of a video file as stated by its own headers.

ffmpeg reads what is left of a truncated file, without an error if the cut lies between two packets.
Most containers state their size, and a few small reads find it:

- avi: the size of each RIFF list;
- mp4, mov, 3gp: the sizes of the boxes, and of all fragments where an index (sidx) lists them;
- mkv, webm: the size of the segment;
- flv: the ``filesize`` of its metadata;
- wmv, asf: the size of the data object;
- mpegts: nothing, but all packets have one size.

Undetectable: mpegts cut between two packets, fragmented mp4 without an index cut between two
fragments, an mdat box that lasts "to the end of the file", an mkv, webm, avi or wmv whose writer
never filled in the size (live recordings), flv without metadata, and containers that state no size
at all (mpeg program streams, nut, ogg, raw streams).
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Optional

#: Boxes of an mp4 without which pictures are lost.  Others, and what follows them, may be junk.
BOXES = (b'moov', b'mdat', b'moof', b'sidx')
FIRST_BOXES = (b'ftyp', b'moov', b'mdat', b'wide', b'free', b'skip', b'pnot', b'styp')

#: Bytes of tolerance: writers of avi disagree on whether a list's size includes its header.
RIFF_SLACK = 8

EBML, SEGMENT, VOID, CRC32 = b'\x1a\x45\xdf\xa3', b'\x18\x53\x80\x67', b'\xec', b'\xbf'

ASF_HEADER = bytes.fromhex('3026b2758e66cf11a6d900aa0062ce6c')
ASF_DATA = bytes.fromhex('3626b2758e66cf11a6d900aa0062ce6c')

#: Bytes of a transport packet, and position of the sync byte 0x47 in it (.ts, .m2ts, with parity).
TRANSPORT = ((188, 0), (192, 4), (204, 0))

#: Maximum plausible file size; a damaged number may be larger, and seeking there fails.
FARTHEST = 1 << 43

#: Maximum plausible size of flv metadata.
MAX_METADATA = 1 << 20


def stated_size(file: BinaryIO, size: int) -> Optional[int]:
    """Return the size that the file must have; a smaller file was truncated.

    Args:
        file: opened for reading, at any position.
        size: its actual size in bytes.

    Returns:
        The number, or None if the file does not state it or has another container.
    """
    head = _at(file, 0, 3 * 204)
    if head[:4] == b'RIFF' and head[8:11] == b'AVI':
        return _avi(file)
    if head[4:8] in FIRST_BOXES:
        return _boxes(file, size)
    if head[:4] == EBML:
        return _matroska(file)
    if head[:3] == b'FLV':
        return _flv(file)
    if head[:16] == ASF_HEADER:
        return _asf(file)
    for packet, sync in TRANSPORT:
        if all(head[i : i + 1] == b'G' for i in range(sync, sync + 3 * packet, packet)):
            return _transport(file, size, packet, sync)
    return None


def _at(file: BinaryIO, position: int, count: int) -> bytes:
    if position > FARTHEST:
        return b''
    file.seek(position)
    return file.read(count)


def _avi(file: BinaryIO) -> Optional[int]:
    """Return the stated size of an AVI; large files are several consecutive lists."""
    position = 0
    while True:
        header = _at(file, position, 12)
        if len(header) < 12 or header[:4] != b'RIFF' or header[8:11] != b'AVI':
            return position - RIFF_SLACK if position else None
        (length,) = struct.unpack_from('<I', header, 4)
        if length in (0, 0xFFFFFFFF):  # a live recording
            return None
        position += 8 + length + length % 2


def _boxes(file: BinaryIO, size: int) -> Optional[int]:
    position, stated = 0, 0
    while position < size:
        header = _at(file, position, 16)
        if len(header) < 8:
            break
        length, kind = struct.unpack_from('>I4s', header)
        if length == 1 and len(header) == 16:
            (length,) = struct.unpack_from('>Q', header, 8)
        if length < 8:  # 0: the box extends to the end of the file
            break
        if kind in BOXES:
            stated = max(stated, position + length)
        if kind == b'sidx' and position + length <= size:
            stated = max(stated, position + length + _indexed(_at(file, position, length)))
        position += length
    return stated or None


def _indexed(sidx: bytes) -> int:
    """Return the bytes after an index box that the box refers to; 0 if it is damaged."""
    wide = sidx[8:9] > b'\0'  # version 1 has 64-bit fields
    head = '>QHH' if wide else '>IHH'  # skipped bytes, reserved, number of fragments
    place = 28 if wide else 24
    start = place + struct.calcsize(head)
    if len(sidx) < start:
        return 0
    skipped, _, count = struct.unpack_from(head, sidx, place)
    fragments = sidx[start : start + 12 * min(count, (len(sidx) - start) // 12)]
    return skipped + sum(size & 0x7FFFFFFF for size, _, _ in struct.iter_unpack('>III', fragments))


def _matroska(file: BinaryIO) -> Optional[int]:
    position = 0
    while True:
        header = _at(file, position, 12)
        name = next((n for n in (EBML, SEGMENT, VOID, CRC32) if header.startswith(n)), None)
        if name is None or len(header) <= len(name):
            return None
        width, length = _vint(header[len(name) :])
        if length is None:
            return None
        position += len(name) + width + length
        if name == SEGMENT:
            return position


def _vint(data: bytes) -> tuple[int, Optional[int]]:
    """Return length and value of an EBML number; value None if it is unknown or invalid."""
    width = 9 - data[0].bit_length()
    if width > 8 or len(data) < width:
        return width, None
    bits = (1 << 7 * width) - 1
    number = int.from_bytes(data[:width], 'big') & bits
    return width, None if number == bits else number


def _flv(file: BinaryIO) -> Optional[int]:
    (offset,) = struct.unpack('>I', _at(file, 5, 4).rjust(4, b'\0'))
    tag = _at(file, offset + 4, 11)  # a size precedes each tag
    if len(tag) < 11 or tag[0] & 0x1F != 18:
        return None
    metadata = file.read(min(int.from_bytes(tag[1:4], 'big'), MAX_METADATA))
    key = b'\0\x08filesize\0'  # length of the name, the name, type of a number
    place = metadata.find(key) + len(key)
    if place < len(key) or place + 8 > len(metadata):
        return None
    (stated,) = struct.unpack_from('>d', metadata, place)
    return int(stated) if 0 < stated < 1 << 53 else None


def _asf(file: BinaryIO) -> Optional[int]:
    position = 0
    for name in (ASF_HEADER, ASF_DATA):
        header = _at(file, position, 24)
        if header[:16] != name or len(header) < 24:
            break
        (length,) = struct.unpack_from('<Q', header, 16)
        if length < 24:  # a live recording
            break
        position += length
    return position or None


def _transport(file: BinaryIO, size: int, packet: int, sync: int) -> Optional[int]:
    rest = size % packet
    tail = _at(file, size - rest, packet)
    if not rest or (rest > sync and tail[sync : sync + 1] != b'G'):  # complete, or junk at the end
        return None
    return size - rest + packet
