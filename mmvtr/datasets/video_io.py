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
from av.stream import Disposition

from mmvtr.datasets.frame_sampling import window

#: Frames that a seek must skip to be worth its cost.
MIN_JUMP = 8

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
            increasing positions among them, int64 [n]; see :mod:`mmvtr.datasets.frame_sampling`.
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
        return _read_by_count(path, select, start, end) if frames is None else frames


def _read_by_time(
    path: str, select: Select, start: Optional[float], end: Optional[float]
) -> Optional[list[np.ndarray]]:
    """The selected frames, or None where packets are not frames (hidden, doubled, without time)."""
    with _open(path) as (container, stream):
        packets = [p for p in container.demux(stream) if p.size and not p.is_discard]
        if any(p.is_corrupt for p in packets):
            raise BrokenVideoError('truncated or damaged')
        pts = sorted(p.pts for p in packets if p.pts is not None)
        if len(set(pts)) < len(packets):
            return None
        wanted = [pts[i] for i in _choose(pts, float(stream.time_base), select, start, end)]
        keys = sorted(p.pts for p in packets if p.is_keyframe)
        frames: list[np.ndarray] = []
        for key, run in _runs(wanted, pts, keys):
            container.seek(key, stream=stream)
            frames += _pick(container.decode(stream), run)
    return frames if len(frames) == len(wanted) else None


def _pick(shown: Iterator[av.VideoFrame], run: Sequence[int]) -> list[np.ndarray]:
    """The frames at the times ``run``; fewer if some are not shown or times are out of order."""
    frames, wanted, last = [], set(run), None
    for frame in shown:
        if frame.pts is None or (last is not None and frame.pts <= last):
            break
        last = frame.pts
        if last in wanted:
            frames.append(_rgb(frame))
        if last >= run[-1]:
            break
    return frames


def _read_by_count(
    path: str, select: Select, start: Optional[float], end: Optional[float]
) -> list[np.ndarray]:
    """The selected frames, by decoding everything twice and counting what is shown."""
    with _open(path) as (container, stream):
        pts = [frame.pts for frame in container.decode(stream)]
        unit = float(stream.time_base)
        if None in pts or any(b <= a for a, b in zip(pts, pts[1:])):
            pts, unit = list(range(len(pts))), 1 / float(stream.average_rate or 1)
    chosen = _choose(pts, unit, select, start, end)
    with _open(path) as (container, stream):
        wanted = set(chosen)
        return [_rgb(f) for i, f in enumerate(container.decode(stream)) if i in wanted]


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


def _rgb(frame: av.VideoFrame) -> np.ndarray:
    """Uint8 [H, W, 3], turned by the display matrix."""
    image = frame.to_ndarray(format='rgb24')
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))


@contextmanager
def _open(path: str) -> Iterator[tuple[av.container.InputContainer, av.VideoStream]]:
    """The container and its first stream of moving pictures (a cover picture is none)."""
    with av.open(path) as container:
        videos = container.streams.video
        streams = [s for s in videos if not s.disposition & Disposition.attached_pic]
        if not streams:
            raise BrokenVideoError('no video stream')
        streams[0].codec_context.thread_count = 1  # data workers are the parallelism
        yield container, streams[0]


@contextmanager
def _errors_name(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f'no such video: {path}') from None
    except (BrokenVideoError, av.error.FFmpegError) as error:
        raise BrokenVideoError(f'{path}: {error}') from error
