"""A video stream's packets on one continuous clock, as in a player, and detection of damage."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import BinaryIO, Iterable, Iterator, Optional

import av
from av.container import InputContainer

from mmvtr.datasets.videos.transport_stream import continuity
from mmvtr.errors import UserError

#: AVFMT_TS_DISCONT of ffmpeg: formats whose times may restart or jump.
MAY_JUMP = 0x200
#: Seconds by which times may go back, and jump ahead, before they are joined (ffmpeg's values).
BACK, JUMP = 0.1, 10.0


class Clock:
    """A player's clock: continues where a file's timestamps restart or jump.

    Args:
        container: a file; a jump ahead is joined only in formats whose times may jump; in others a
            picture may be shown for that long.

    Attributes:
        offset: current offset of the times, in the unit of the stream; 0: they are the file's own.
    """

    def __init__(self, container: InputContainer) -> None:
        self.offset = 0
        self._jumps = bool(container.format.flags & MAY_JUMP)

    def joined(self, packets: Iterable[av.Packet]) -> Iterator[av.Packet]:
        """Yield a stream's packets; after a jump each follows the end of the last, as in ffmpeg."""
        last, step, back, jump = None, 0, 0.0, 0.0
        for packet in packets:
            dts = packet.dts
            if dts is not None and packet.size:
                dts += self.offset
                if last is None:  # all packets of a stream have its time base
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


class BrokenVideoError(UserError):
    """A video file that cannot provide the requested frames; the message names it."""


class DoubledError(Exception):
    """A packet of a transport stream is repeated."""


@dataclass
class Damage:
    """Detector of damaged pictures, from a file's packets in decoding order.

    Attributes:
        source: the file, if it is a transport stream.
        pts: times of the pictures whose data, or whose references' data, are incomplete.
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
            DoubledError: its data are repeated.
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
        """Check the continuity counters of a picture's packets in a transport stream."""
        if packet.is_keyframe:
            self._broken = False
        elif self._breaks & 1 and self._late(packet):
            self._broken = True  # it refers to a picture that is lost completely
        self._broken |= self._next_broken
        self._next_broken, self._breaks = False, self._breaks >> 1
        # ffmpeg loses the mark of the first picture while it probes the file.
        if packet.is_corrupt or self._end is None:
            gap = continuity(source, packet.pos, packet.stream.id)
            if gap.doubled:
                raise DoubledError
            self._broken |= gap.lost[0]
            self._next_broken = gap.lost[1]
            self._breaks |= gap.broken_behind[0] | gap.broken_behind[1] << 1
        if packet.dts is not None:
            self._end = packet.dts + 1.5 * (packet.duration or 0)

    def _late(self, packet: av.Packet) -> bool:
        """Return whether the times show that a whole picture is missing at a counter break."""
        return packet.dts is None or self._end is None or packet.dts > self._end
