"""Packets of a video stream on one clock, as a player joins them, and which of them are damaged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import BinaryIO, Iterable, Iterator, Optional

import av
from av.container import InputContainer

from mmvtr.datasets.videos.transport_stream import continuity

#: AVFMT_TS_DISCONT of ffmpeg: formats whose times may start again or jump.
MAY_JUMP = 0x200
#: Seconds that times may go back by, and by which they may jump, before they are joined (ffmpeg's).
BACK, JUMP = 0.1, 10.0


class Clock:
    """A player's clock: continues where a file's timestamps restart or jump.

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
        last, step, back, jump = None, 0, 0.0, 0.0
        for packet in packets:
            dts = packet.dts
            if dts is not None and packet.size:
                dts += self.offset
                if last is None:  # the unit of a stream is that of all its packets
                    unit = float(packet.time_base)
                    back, jump = -BACK / unit, (JUMP / unit if self._jumps else math.inf)
                elif dts - last < back or dts - last - step > jump:
                    self.offset += last + step - dts
                    dts = last + step
                step = packet.duration or (dts - last if last is not None and dts > last else step)
                last = dts
            if self.offset:
                packet.dts = None if packet.dts is None else packet.dts + self.offset
                packet.pts = None if packet.pts is None else packet.pts + self.offset
            yield packet


class DoubledError(Exception):
    """A packet of a transport stream stands twice."""


@dataclass
class Damage:
    """Judges packets in decoding order to find which pictures of a file are damaged.

    Attributes:
        source: the file, if it is a transport stream.
        pts: of the pictures whose data, or whose references' data, lack something.
    """

    source: Optional[BinaryIO]
    pts: set[int] = field(default_factory=set)
    _broken: bool = False
    _next_broken: bool = False
    _breaks: int = 0
    _end: Optional[float] = None

    def see(self, packet: av.Packet) -> None:
        """Process the next packet of the stream.

        Raises:
            DoubledError: its data stand twice.
        """
        if self.source is not None and packet.pos is not None:
            self._count(packet, self.source)
        elif packet.is_corrupt:
            self._broken = True
        elif packet.is_keyframe:
            self._broken = False
        if self._broken and packet.pts is not None:
            self.pts.add(packet.pts)

    def _count(self, packet: av.Packet, source: BinaryIO) -> None:
        """Judge the continuity counters of a picture's packets in a transport stream."""
        if packet.is_keyframe:
            self._broken = False
        elif self._breaks & 1 and self._late(packet):
            self._broken = True  # it needs a picture of which nothing is left
        self._broken |= self._next_broken
        self._next_broken, self._breaks = False, self._breaks >> 1
        # ffmpeg's mark of the first picture is lost while it probes the file.
        if packet.is_corrupt or self._end is None:
            found = continuity(source, packet.pos, packet.stream.id)
            if found.doubled:
                raise DoubledError
            self._broken |= found.lost[0]
            self._next_broken = found.lost[1]
            self._breaks |= found.broken_behind[0] | found.broken_behind[1] << 1
        if packet.dts is not None:
            self._end = packet.dts + 1.5 * (packet.duration or 0)

    def _late(self, packet: av.Packet) -> bool:
        """Behind a break of the counter: by the times another picture should stand before it."""
        return packet.dts is None or self._end is None or packet.dts > self._end
