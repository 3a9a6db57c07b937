"""Presentation times and damage of a file's pictures, from its packets without decoding."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from contextlib import nullcontext
from typing import BinaryIO, Callable, Iterator, NamedTuple, Optional, Sequence

import av
from av.container import InputContainer

from mmvtr.datasets.videos.packet_times import Clock, Damage
from mmvtr.datasets.videos.video_files import BrokenVideoError

#: Minimum number of skipped frames for which a seek is worth its cost.
MIN_JUMP = 8

#: Share of the stated length, and seconds, by which a file may be too short.
MAX_SHORTFALL = 0.1
MAX_SECONDS_SHORT = 0.5

#: AVFMT_NOTIMESTAMPS of ffmpeg: set for raw streams, whose times are guessed.
NO_TIMESTAMPS = 0x80


class Listed(NamedTuple):
    """Times of a stream's packets, and of its key frames, both increasing.

    Attributes:
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
    pts, keys, first, last = [], [], None, 0.0
    counts, units = Counter(), {s.index: float(s.time_base or 0) for s in container.streams}

    def of_stream() -> Iterator[av.Packet]:
        nonlocal last
        own = stream.index
        for packet in container.demux():
            time, size, index = packet.pts, packet.size, packet.stream.index
            counts[index] += size > 0
            if time is not None:
                last = max(last, (time + (packet.duration or 0)) * units.get(index, 0))
            if index == own and size:
                yield packet

    clock, transport = Clock(container), container.format.name == 'mpegts'
    with source() if transport else nullcontext() as source:
        damage = Damage(source)
        for packet in clock.joined(of_stream()):
            if first is None:
                first = packet
            if packet.is_discard:
                continue
            damage.see(packet)
            time = packet.pts
            pts.append(time)
            if packet.is_keyframe:
                keys.append(time)
    # The missing bytes may not belong to any picture: then all packets of the file's index exist.
    if missing and not all(counts[s.index] == s.frames > 0 for s in container.streams):
        raise BrokenVideoError(missing)
    if len(pts) > 1:  # a single picture's duration is not stored
        _check_length(container, last)
    if not pts or None in pts or first.pts is None or len(set(pts)) < len(pts):
        return None
    if container.format.flags & NO_TIMESTAMPS:
        return None
    codec = stream.codec_context
    # Avi has no presentation times, and MPEG-4 keeps its packed B-frames in other containers.
    packed = codec.has_b_frames and ('avi' in container.format.name or codec.name == 'mpeg4')
    ordered = not packed or any(b < a for a, b in zip(pts, pts[1:]))
    ordered = ordered and not clock.offset
    every = len(keys) == len(pts) and not codec.codec.intra_only
    doubtful = every or not first.is_keyframe
    pts.sort()
    sound = [time for time in pts if time not in damage.pts] if damage.pts else pts
    return Listed(pts, sorted(keys), first.pts, doubtful, ordered, damage.pts, sound)


def _check_length(container: InputContainer, last: float) -> None:
    """Raise if a file ends before the length in its header: these formats end without an error."""
    states_length = any(name in container.format.name for name in ('matroska', 'avi', 'flv'))
    length = (container.duration or 0) / av.time_base
    missing = length - last
    if states_length and missing > max(MAX_SHORTFALL * length, MAX_SECONDS_SHORT):
        raise BrokenVideoError(f'ends at {last:.2f} s of {length:.2f} s')


def runs(wanted: Sequence[int], listed: Listed) -> Iterator[tuple[int, list[int]]]:
    """Split the wanted times into stretches to decode, each with the time to seek to first."""
    pts, keys = listed.pts, listed.keys
    run: list[int] = []
    seek, here = pts[0], 0
    for time in wanted:
        key = keys[bisect_right(keys, time) - 1] if keys and keys[0] <= time else pts[0]
        if bisect_right(pts, key) - here > MIN_JUMP:
            if run:
                yield seek, run
            seek, run = key, []
        run.append(time)
        here = bisect_right(pts, time)
    yield seek, run
