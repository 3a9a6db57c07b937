"""Continuity counters of an MPEG transport stream and the affected pictures (ISO/IEC 13818-1).

ffmpeg marks a picture as corrupt if the counter of its packets is discontinuous.  The cause may be
a lost packet, a repeated one, which the standard allows, or a join of two recordings, where nothing
is missing.
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO, Iterator, NamedTuple

import numpy as np

#: Bytes of a packet, its first byte, and bytes that may precede it (m2ts).
SIZE, SYNC, STAMP = 188, 0x47, 4
#: Bytes of the clock reference (PCR, OPCR) in an adaptation field, by their flags.
CLOCKS = {0x10: 6, 0x08: 6}


class Continuity(NamedTuple):
    """Findings from the continuity counters of a picture's packets and of the next picture's.

    Attributes:
        lost: for each of the two, whether a packet is missing inside or at the end (the last packet
            of a picture has stuffing, except one in 184).
        broken_behind: for each, whether the counter breaks between its data and the following data:
            then nothing is missing, or whole pictures are.
        doubled: whether a packet is repeated.
    """

    lost: tuple[bool, bool]
    broken_behind: tuple[bool, bool]
    doubled: bool


class _Packet(NamedTuple):
    """A packet; ``filled``: only data and clocks, as in all packets of a picture but its last."""

    begins: bool
    counter: int
    discontinuous: bool
    filled: bool
    payload: bytes


def continuity(file: BinaryIO, position: int, pid: int) -> Continuity:
    """Return the findings from the packets of two units of data, starting at ``position``.

    ffmpeg's parser ends a picture when it sees the next one, so its mark may be on the one before.

    Args:
        file: a transport stream, packets of 188 or 192 bytes.
        position: byte offset of the first packet in the file, from ffmpeg.
        pid: the id of the stream in the file.

    Returns:
        The findings; nothing lost if no packet begins at the position.
    """
    lost, behind, doubled, last, units = [False, False], [False, False], False, None, 0
    for packet in _packets(file, position, pid):
        if packet == last:
            doubled = True
            continue
        expected = None if last is None else (last.counter + bool(packet.payload)) % 16
        if expected not in (None, packet.counter) and not packet.discontinuous and units:
            whole = packet.begins and not last.filled
            (behind if whole else lost)[units - 1] = True
        units += packet.begins
        if units > len(lost):
            break
        last = packet
    return Continuity((lost[0], lost[1]), (behind[0], behind[1]), doubled)


def _packets(file: BinaryIO, position: int, pid: int) -> Iterator[_Packet]:
    """Yield the packets of a stream in file order."""
    file.seek(position)
    stride = _stride(file.read(STAMP + 1))
    file.seek(position)
    while stride and len(block := file.read(stride)) == stride:
        block = block[-SIZE:]
        if block[0] != SYNC:
            return
        if ((block[1] & 0x1F) << 8) | block[2] != pid:
            continue
        adapted, has_data = block[3] & 0x20, block[3] & 0x10
        start = 4 + (1 + block[4] if adapted else 0)
        flags = block[5] if adapted and block[4] else 0
        clocks = sum(length for flag, length in CLOCKS.items() if flags & flag)
        filled = not adapted or block[4] == bool(block[4]) + clocks and not flags & 0x07
        payload = block[start:] if has_data else b''
        begins, counter = bool(block[1] & 0x40), block[3] & 0x0F
        yield _Packet(begins, counter, bool(flags & 0x80), filled, payload)


def _stride(head: bytes) -> int:
    """Return the distance between packets in bytes; 0 if no packet begins here."""
    if head[:1] == bytes([SYNC]):
        return SIZE
    return SIZE + STAMP if head[STAMP:] == bytes([SYNC]) else 0


class EachOnce(io.RawIOBase):
    """File object over a transport stream without its repeated packets.

    Args:
        path: a transport stream, packets of 188 or 192 bytes from its first byte on; the second of
            two consecutive copies of a PID's packet is left out, up to a packet without sync byte.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, 'rb')
        size, stride = os.fstat(self._file.fileno()).st_size, _stride(self._file.read(STAMP + 1))
        copies = _copies(path, stride) if stride else np.empty(0, np.int64)
        #: Offsets at which each stretch without a copy begins, in the file and in this object.
        self._there = np.concatenate([[0], (copies + 1) * stride])
        self._here = self._there - stride * np.arange(len(copies) + 1)
        self._size = size - stride * len(copies)
        self._at = 0

    def readinto(self, buffer) -> int:
        """Read up to the end of a stretch; return the number of bytes, 0 at the end."""
        stretch = int(np.searchsorted(self._here, self._at, side='right')) - 1
        end = self._here[stretch + 1] if stretch + 1 < len(self._here) else self._size
        self._file.seek(int(self._there[stretch] + self._at - self._here[stretch]))
        data = self._file.read(min(len(buffer), int(end - self._at)) if end > self._at else 0)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a byte offset and return it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _copies(path: str, stride: int) -> np.ndarray:
    """Return the indices of packets that repeat their predecessor, int64, increasing."""
    whole = os.path.getsize(path) // stride
    blocks = np.memmap(path, np.uint8, 'r', shape=(whole, stride))[:, stride - SIZE :]
    unlike = np.flatnonzero(blocks[:, 0] != SYNC)
    blocks = blocks[: unlike[0]] if len(unlike) else blocks
    pid = (blocks[:, 1] & 0x1F).astype(np.int32) << 8 | blocks[:, 2]
    order = np.argsort(pid, kind='stable')
    last, this = order[:-1], order[1:]
    alike = (pid[last] == pid[this]) & (blocks[last, 3] == blocks[this, 3])
    alike &= blocks[this, 3] & 0x10 > 0
    pairs = zip(last[alike].tolist(), this[alike].tolist())
    return np.array(sorted(b for a, b in pairs if _payload(blocks[a]) == _payload(blocks[b])), int)


def _payload(block: np.ndarray) -> bytes:
    """Return the payload of a packet; its clock may differ from that of its copy."""
    return block[4 + (1 + int(block[4]) if block[3] & 0x20 else 0) :].tobytes()
