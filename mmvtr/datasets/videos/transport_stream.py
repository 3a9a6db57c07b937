"""What a continuity counter of an MPEG transport stream means for a picture (ISO/IEC 13818-1).

ffmpeg marks the data of a picture as corrupt where the counter of their packets does not go on.
That may be a packet that is gone, one that stands twice, as the standard allows, or the place where
two recordings were joined, at which nothing is missing.
"""

from __future__ import annotations

from typing import BinaryIO, Iterator, NamedTuple

#: Bytes of a packet, the byte that it begins with, and bytes that may stand before it (m2ts).
SIZE, SYNC, STAMP = 188, 0x47, 4


class Continuity(NamedTuple):
    """The packets that a picture's data came in, and those of the next one.

    Attributes:
        lost: of both, whether a packet is missing inside or at the end (the last packet of a
            picture is stuffed, but for one in 184).
        doubled: what those hold that stand twice.
    """

    lost: tuple[bool, bool]
    doubled: tuple[bytes, ...]


class _Packet(NamedTuple):
    """``filled``: it holds nothing but data, as all do but the last one of a picture."""

    begins: bool
    counter: int
    discontinuous: bool
    filled: bool
    payload: bytes


def continuity(path: str, position: int, pid: int) -> Continuity:
    """Read the packets of two units of data, from the one that begins the first.

    ffmpeg's parser ends a picture when it sees the next one, so its mark may be on the one before.

    Args:
        path: a transport stream, packets of 188 or 192 bytes.
        position: of the first packet in the file, as ffmpeg tells it.
        pid: the number of the stream in the file.

    Returns:
        what the counters say; nothing lost where no packet begins at the position.
    """
    lost, doubled, last, units = [False, False], [], None, 0
    with open(path, 'rb') as file:
        for packet in _packets(file, position, pid):
            if packet == last:
                doubled.append(packet.payload)
                continue
            expected = None if last is None else (last.counter + bool(packet.payload)) % 16
            goes_on = expected in (None, packet.counter) or packet.discontinuous
            if not goes_on and units and (not packet.begins or last.filled):
                lost[units - 1] = True
            units += packet.begins
            if units > len(lost):
                break
            last = packet
    return Continuity((lost[0], lost[1]), tuple(doubled))


def without_doubled(data: bytes, doubled: tuple[bytes, ...]) -> bytes:
    """Take the second copy of each payload out of a picture's data."""
    for payload in doubled:
        data = data.replace(payload + payload, payload, 1)
    return data


def _packets(file: BinaryIO, position: int, pid: int) -> Iterator[_Packet]:
    """The packets of a stream in the order of the file."""
    file.seek(position)
    head = file.read(STAMP + 1)
    stride = SIZE if head[:1] == bytes([SYNC]) else SIZE + STAMP
    if stride != SIZE and head[STAMP:] != bytes([SYNC]):
        return
    file.seek(position)
    while len(block := file.read(stride)) == stride:
        block = block[-SIZE:]
        if block[0] != SYNC:
            return
        if ((block[1] & 0x1F) << 8) | block[2] != pid:
            continue
        adapted, has_data = block[3] & 0x20, block[3] & 0x10
        start = 4 + (1 + block[4] if adapted else 0)
        discontinuous = bool(adapted and block[4] and block[5] & 0x80)
        payload = block[start:] if has_data else b''
        begins, counter = bool(block[1] & 0x40), block[3] & 0x0F
        yield _Packet(begins, counter, discontinuous, not adapted, payload)
