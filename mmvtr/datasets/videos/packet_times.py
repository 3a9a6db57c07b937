"""Packets of a video stream on one clock, as a player joins them."""

from __future__ import annotations

import math
from typing import Iterable, Iterator

import av
from av.container import InputContainer

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
