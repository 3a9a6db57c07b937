"""Chosen frames of a video file, as RGB arrays.

Headers lie about frame counts and rates, so the packets are listed first, without decoding: their
presentation times are the frames', at any frame rate. One decoding pass then picks the chosen
times, jumping over what no chosen frame needs; only chosen frames are converted and kept.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from typing import Callable, Iterator, Optional, Sequence

import av
import numpy as np
from av.container import InputContainer
from av.stream import Disposition
from av.video.reformatter import VideoReformatter

from mmvtr.datasets.videos.frame_sampling import window

#: Frames that a seek must skip to be worth its cost.
MIN_JUMP = 8

#: Share of its length that a header may promise and a file not hold.
MAX_SHORTFALL = 0.1

Select = Callable[[np.ndarray], np.ndarray]


class BrokenVideoError(RuntimeError):
    """A video file that cannot give the frames asked for; the message names it."""


def read_frames(
    path: str, select: Select, *, start: Optional[float] = None, end: Optional[float] = None
) -> list[np.ndarray]:
    """Decode the selected frames of the first video stream, upright.

    Args:
        path: video file, any container and codec that ffmpeg reads.
        select: from presentation times (seconds in the file, float64 [N], increasing) to
            increasing positions among them, int64 [n]; see
            :mod:`mmvtr.datasets.videos.frame_sampling`.
        start: seconds into the file where the clip starts; None = its beginning.
        end: seconds into the file where the clip ends, exclusive; None = its end.

    Returns:
        n arrays, uint8 RGB [H, W, 3].

    Raises:
        BrokenVideoError: no video stream, no frame, data that cannot be decoded, an empty clip.
        FileNotFoundError: no such file.
    """
    with _errors_name(path):
        frames = _read_by_time(path, select, start, end)
        if frames is None:
            frames = _read_by_count(path, select, start, end)
        sizes = {frame.shape[:2] for frame in frames}
        if len(sizes) > 1:
            raise BrokenVideoError(f'pictures of several sizes: {sorted(sizes)}')
        return frames


def _read_by_time(
    path: str, select: Select, start: Optional[float], end: Optional[float]
) -> Optional[list[np.ndarray]]:
    """The selected frames, or None where packets are not frames (hidden, doubled, without time)."""
    with _open(path) as (container, stream):
        listed = _list_packets(container, stream)
        if listed is None:
            return None
        pts, keys = listed
        wanted = [pts[i] for i in _choose(pts, float(stream.time_base), select, start, end)]
        frames: list[np.ndarray] = []
        for key, run in _runs(wanted, pts, keys):
            container.seek(key, stream=stream)
            frames += _pick(_shown(container, stream), run)
    return frames if len(frames) == len(wanted) else None


def _list_packets(
    container: InputContainer, stream: av.VideoStream
) -> Optional[tuple[list[int], list[int]]]:
    """Presentation times of all packets and of the key frames, sorted; None if unusable."""
    pts, keys, last = [], [], 0.0
    for packet in container.demux():
        if packet.pts is not None:
            last = max(last, float((packet.pts + (packet.duration or 0)) * packet.time_base))
        if packet.stream is not stream or not packet.size or packet.is_discard:
            continue
        if packet.is_corrupt:
            raise BrokenVideoError('a packet is cut short')
        pts.append(packet.pts)
        keys += [packet.pts] if packet.is_keyframe else []
    if len(pts) > 1:  # the duration of a single picture is nowhere
        _check_whole(container, last)
    usable = None not in pts and len(set(pts)) == len(pts)
    return (sorted(pts), sorted(keys)) if usable else None


def _check_whole(container: InputContainer, last: float) -> None:
    """These formats end without an error where they are cut, but their header says how long."""
    states_length = any(name in container.format.name for name in ('matroska', 'avi'))
    length = (container.duration or 0) / av.time_base
    if states_length and length - last > MAX_SHORTFALL * length:
        raise BrokenVideoError(f'ends at {last:.2f} s of {length:.2f} s')


def _pick(shown: Iterator[av.VideoFrame], run: Sequence[int]) -> list[np.ndarray]:
    """The frames at the times ``run``; fewer if some are not shown or times are out of order."""
    frames, wanted, last = [], set(run), None
    converter = VideoReformatter()
    for frame in shown:
        if frame.pts is None or (last is not None and frame.pts <= last):
            break
        last = frame.pts
        if last in wanted:
            frames.append(_rgb(frame, converter))
        if last >= run[-1]:
            break
    return frames


def _read_by_count(
    path: str, select: Select, start: Optional[float], end: Optional[float]
) -> list[np.ndarray]:
    """The selected frames, by decoding everything twice and counting what is shown."""
    with _open(path) as (container, stream):
        pts = [frame.pts for frame in _shown(container, stream)]
        rate = float(stream.average_rate or 1)
        unit = float(stream.time_base)
    if None in pts:
        pts, unit = list(range(len(pts))), 1 / rate
    elif any(b <= a for a, b in zip(pts, pts[1:])):  # out of order: only their span means something
        unit *= (max(pts) - min(pts)) / (len(pts) - 1)
        pts = list(range(len(pts)))
    chosen = _choose(pts, unit, select, start, end)
    with _open(path) as (container, stream):
        wanted, converter = set(chosen), VideoReformatter()
        shown = enumerate(_shown(container, stream))
        return [_rgb(frame, converter) for i, frame in shown if i in wanted]


def _choose(
    pts: Sequence[int], unit: float, select: Select, start: Optional[float], end: Optional[float]
) -> list[int]:
    """Positions in ``pts`` (increasing, in ``unit`` seconds) of the selected frames of the clip."""
    if not pts:
        raise BrokenVideoError('no frame')
    times = (np.asarray(pts) - pts[0]) * unit
    try:
        clip = window(times, start, end)
    except ValueError as error:
        raise BrokenVideoError(str(error)) from None
    return (clip.start + select(times[clip])).tolist()


def _runs(
    wanted: Sequence[int], pts: Sequence[int], keys: Sequence[int]
) -> Iterator[tuple[int, list[int]]]:
    """Split the wanted times into stretches to decode, each with the time to seek to first."""
    run: list[int] = []
    seek, here = pts[0], 0
    for time in wanted:
        key = keys[max(0, bisect_right(keys, time) - 1)] if keys else pts[0]
        if bisect_right(pts, key) - here > MIN_JUMP:
            if run:
                yield seek, run
            seek, run = key, []
        run.append(time)
        here = bisect_right(pts, time)
    yield seek, run


def _shown(container: InputContainer, stream: av.VideoStream) -> Iterator[av.VideoFrame]:
    """Decode on; pictures that the decoder patched up from damaged data are an error."""
    for frame in container.decode(stream):
        if frame.is_corrupt:
            raise BrokenVideoError(f'damaged pictures at {frame.time} s')
        yield frame


def _rgb(frame: av.VideoFrame, converter: VideoReformatter) -> np.ndarray:
    """Uint8 [H, W, 3], turned by the display matrix.

    One converter a file: ``frame.to_ndarray`` would set up a new one for each frame, half the time
    of reading a small clip.
    """
    image = converter.reformat(frame, format='rgb24').to_ndarray()
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))


@contextmanager
def _open(path: str) -> Iterator[tuple[InputContainer, av.VideoStream]]:
    """The container and its first stream of moving pictures (a cover picture is none)."""
    with av.open(path) as container:
        streams = [s for s in container.streams.video if _moves(s)]
        if not streams:
            raise BrokenVideoError('no video stream')
        streams[0].codec_context.thread_count = 1  # data workers are the parallelism
        yield container, streams[0]


def _moves(stream: av.VideoStream) -> bool:
    known_codec = stream.codec_context is not None
    return known_codec and not stream.disposition & Disposition.attached_pic


@contextmanager
def _errors_name(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f'no such video: {path}') from None
    except (BrokenVideoError, av.error.FFmpegError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise BrokenVideoError(f'{path}: {reason}') from error
