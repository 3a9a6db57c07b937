"""Packets of a video stream on one clock, as a player joins them, and which of them are damaged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Iterator, Optional

import av
from av.container import InputContainer

from mmvtr.datasets.videos.transport_stream import continuity, without_doubled

#: AVFMT_TS_DISCONT of ffmpeg: formats whose times may start again or jump.
MAY_JUMP = 0x200
#: Seconds that times may go back by, and by which they may jump, before they are joined (ffmpeg's).
BACK, JUMP = 0.1, 10.0


class Clock:
    """The clock of a player, on which times go on where those of a file start again or jump.

    Args:
        container: a file; in formats alone whose times may jump a jump ahead is joined, elsewhere a
            picture may be shown for that long.

    Attributes:
        offset: added to the times by now, in the unit of the stream; 0: they are the file's own.
    """

    def __init__(self, container: InputContainer) -> None:
        self.offset = 0
        self._jumps = bool(container.format.flags & MAY_JUMP)

    def joined(self, packets: Iterable[av.Packet]) -> Iterator[av.Packet]:
        """Packets of one stream: the next one is shown where the one before ends, as by ffmpeg."""
        last, step = None, 0
        for packet in packets:
            if packet.dts is not None and packet.size:
                unit, dts = float(packet.time_base), packet.dts + self.offset
                ahead = 0.0 if last is None else (dts - last) * unit
                if ahead < -BACK or (self._jumps and ahead - step * unit > JUMP):
                    self.offset += last + step - dts
                    dts = last + step
                step = packet.duration or (dts - last if last is not None and dts > last else step)
                last = dts
            if self.offset:
                packet.dts = None if packet.dts is None else packet.dts + self.offset
                packet.pts = None if packet.pts is None else packet.pts + self.offset
            yield packet


@dataclass
class Damage:
    """Which pictures of a file are damaged, judged packet by packet in the order of decoding.

    Attributes:
        path: the file.
        pts: of the pictures whose data, or whose references' data, lack something.
        doubled: by the time of a picture, what its data hold twice.
    """

    path: str
    pts: set[int] = field(default_factory=set)
    doubled: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    _broken: bool = False
    _next_broken: bool = False
    _twice: tuple[bytes, ...] = ()

    def see(self, packet: av.Packet, container: InputContainer) -> None:
        """Take the next packet of the stream into account."""
        twice, self._twice = self._twice, ()
        if packet.is_keyframe:
            self._broken = False
        self._broken |= self._next_broken
        self._next_broken = False
        if packet.is_corrupt:
            if container.format.name != 'mpegts' or packet.pos is None:
                self._broken = True
            else:
                found = continuity(self.path, packet.pos, packet.stream.id)
                self._broken |= found.lost[0]
                self._next_broken = found.lost[1]
                self._twice = found.doubled
        if packet.pts is None:
            return
        if twice or self._twice:
            self.doubled[packet.pts] = twice + self._twice
        if self._broken:
            self.pts.add(packet.pts)

    def mended(self, packets: Iterable[av.Packet]) -> Iterator[av.Packet]:
        """Packets with no part of their data twice."""
        for packet in packets:
            twice = self.doubled.get(packet.pts) if packet.size else None
            yield (
                packet
                if twice is None
                else _with_data(packet, without_doubled(bytes(packet), twice))
            )


def _with_data(packet: av.Packet, data: bytes) -> av.Packet:
    made = av.Packet(data)
    made.stream, made.time_base = packet.stream, packet.time_base
    made.pts, made.dts, made.duration = packet.pts, packet.dts, packet.duration
    made.is_keyframe = packet.is_keyframe
    return made


def once(packets: Iterable[av.Packet]) -> Iterator[av.Packet]:
    """Leave out a packet that repeats the one before it, byte for byte at the same time."""
    last: Optional[tuple] = None
    for packet in packets:
        key = (packet.dts, packet.size, bytes(packet)) if packet.size else None
        if key is None or key != last:
            yield packet
        last = key
