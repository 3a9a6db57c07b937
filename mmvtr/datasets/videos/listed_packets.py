"""Presentation times and damage of a file's pictures, from its packets without decoding."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise
from statistics import median
from typing import BinaryIO, Callable, Iterator, NamedTuple, Optional, Sequence

import av
from av.container import InputContainer

from mmvtr.datasets.videos.packet_times import BrokenVideoError, Clock, Damage

#: Minimum number of skipped frames for which a seek is worth its cost.
MIN_JUMP = 8

#: Formats that ffmpeg reads without an error if they end before the length in their header.
STATE_LENGTH = ('matroska', 'avi', 'flv')
#: Share of the stated length, and seconds, by which a file may be too short.
MAX_SHORTFALL = 0.1
MAX_SECONDS_SHORT = 0.5

#: AVFMT_NOTIMESTAMPS of ffmpeg: set for raw streams, whose times are guessed.
NO_TIMESTAMPS = 0x80


class Packets:
    """The packets of a stream with data, on a player's clock, from the container's position on.

    Args:
        container, stream: an open file.

    Attributes:
        clock: the clock; its offset is that of the last packet.
    """

    def __init__(self, container: InputContainer, stream: av.VideoStream) -> None:
        self.clock = Clock(container)
        self._container, self._stream = container, stream
        self._counts: Counter[int] = Counter()  # packets of each stream
        self._end = 0.0  # seconds, of the packets of all streams

    def __iter__(self) -> Iterator[av.Packet]:
        return self.clock.joined(self._of_stream())

    def _of_stream(self) -> Iterator[av.Packet]:
        stream_index, counts = self._stream.index, self._counts
        units = {s.index: float(s.time_base or 0) for s in self._container.streams}
        for packet in self._container.demux():
            time, size, index = packet.pts, packet.size, packet.stream.index
            counts[index] += size > 0
            if time is not None:
                end = (time + (packet.duration or 0)) * units.get(index, 0)
                self._end = max(self._end, end)
            if index == stream_index and size:
                yield packet

    def check(self, missing: Optional[str], pictures: int) -> None:
        """Raise if the file, read to its end, is not whole.

        Args:
            missing: a description of the bytes that the file lacks by its size; None if none.
            pictures: number of the stream's pictures; the duration of a single one is not stored.

        Raises:
            BrokenVideoError: bytes are missing, or the file ends before the length in its header.
        """
        streams = self._container.streams
        # The missing bytes may not belong to any picture: then all packets of the index exist.
        if missing and not all(self._counts[s.index] == s.frames > 0 for s in streams):
            raise BrokenVideoError(missing)
        name, length = self._container.format.name, (self._container.duration or 0) / av.time_base
        if pictures < 2 or not any(codec in name for codec in STATE_LENGTH):
            return
        if length - self._end > max(MAX_SHORTFALL * length, MAX_SECONDS_SHORT):
            raise BrokenVideoError(f'ends at {self._end:.2f} s of {length:.2f} s')


class Listed(NamedTuple):
    """Times of a stream's packets, and of its key frames, both increasing.

    Attributes:
        end: the time at which the last picture ends.
        first: the time of the file's first packet.
        doubtful: whether it is not a key frame, or all packets are marked as key frames, so that
            even the first picture may never be shown.
        ordered: whether the times can be presentation times; if not, they are the order of the
            packets, which differs from that of the pictures (packed B-frames), or they restart, so
            that one cannot seek to a time.
        damaged: times of the pictures whose data, or whose references' data, are incomplete; a
            decoder drops some of them and shows others out of order.
        sound: times of the other pictures.
    """

    pts: list[int]
    keys: list[int]
    end: int
    first: int
    doubtful: bool
    ordered: bool
    damaged: set[int]
    sound: list[int]


def list_packets(
    container: InputContainer,
    stream: av.VideoStream,
    source: Callable[[], BinaryIO],
    missing: Optional[str],
) -> Optional[Listed]:
    """Return all packets of a stream; None if they have no times of their own.

    Args:
        container, stream: an open file, at its beginning.
        source: function that opens the bytes to decode.
        missing: a description of the bytes that the file lacks by its size; None if none.

    Raises:
        BrokenVideoError: bytes are missing, or the file ends before the length in its header.
    """
    pts, keys, first, duration = [], [], None, None
    packets, transport = Packets(container, stream), container.format.name == 'mpegts'
    with source() if transport else nullcontext() as source:
        damage = Damage(source)
        for packet in packets:
            first = first or packet
            if packet.is_discard:
                continue
            damage.see(packet)
            pts.append(packet.pts)
            if packet.is_keyframe:
                keys.append(packet.pts)
            duration = packet.duration
    packets.check(missing, len(pts))
    if not pts or None in pts or first.pts is None or len(set(pts)) < len(pts):
        return None
    if container.format.flags & NO_TIMESTAMPS:
        return None
    codec = stream.codec_context
    # Avi has no presentation times, and MPEG-4 keeps its packed B-frames in other containers.
    packed = codec.has_b_frames and ('avi' in container.format.name or codec.name == 'mpeg4')
    ordered = not packed or any(b < a for a, b in zip(pts, pts[1:]))
    ordered = ordered and not packets.clock.offset
    every = len(keys) == len(pts) and not codec.codec.intra_only
    doubtful = every or not first.is_keyframe
    pts.sort()
    sound = [time for time in pts if time not in damage.pts] if damage.pts else pts
    end = end_of(pts, duration, stream)
    return Listed(pts, sorted(keys), end, first.pts, doubtful, ordered, damage.pts, sound)


def end_of(pts: Sequence[int], duration: Optional[int], stream: av.VideoStream) -> int:
    """Return the time at which the last picture ends.

    Containers store the distances of decoding times, so where pictures are reordered the duration
    of the picture that is shown last is not its own: it is that of the packet that is decoded last.

    Args:
        pts: times of the pictures, in any order.
        duration: of the packet that is decoded last; None or 0 = the median distance of ``pts``.
        stream: gives the unit, and the frame rate of a single picture without a duration.
    """
    if not duration and len(pts) > 1:
        duration = median(b - a for a, b in pairwise(sorted(pts)))
    return max(pts) + round(duration or 1 / (rate_of(stream) * float(stream.time_base)))


def rate_of(stream: av.VideoStream) -> float:
    """Return the frames per second that a stream states, or 1."""
    return float(stream.average_rate or 1)


def runs(times: Sequence[int], listed: Listed) -> Iterator[tuple[int, list[int]]]:
    """Split the wanted times into stretches to decode, each with the time to seek to first."""
    pts, keys = listed.pts, listed.keys
    run: list[int] = []
    seek, here = pts[0], 0
    for time in times:
        key = keys[bisect_right(keys, time) - 1] if keys and keys[0] <= time else pts[0]
        if bisect_right(pts, key) - here > MIN_JUMP:
            if run:
                yield seek, run
            seek, run = key, []
        run.append(time)
        here = bisect_right(pts, time)
    yield seek, run
