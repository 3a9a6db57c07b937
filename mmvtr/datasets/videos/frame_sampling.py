"""Choice of the frames of a clip: pure functions of the frames' presentation times.

All take ``times`` (seconds, float64 [N], increasing, any frame rate) and return at most
``num_frames`` increasing positions, int64 [n]. A clip with fewer frames keeps all of them; nothing
is repeated, padding is masked.
"""

from __future__ import annotations

from typing import Callable, Optional

import numpy as np

#: Containers round times to about a millisecond, so a frame may appear that much early.
TIME_SLACK = 1e-3


def spread(indices: np.ndarray, num_frames: int) -> np.ndarray:
    """Return at most ``num_frames`` of ``indices``, evenly, ends included (CLIP4Clip's slice 2)."""
    if len(indices) <= num_frames:
        return indices
    return indices[np.linspace(0, len(indices) - 1, num_frames, dtype=np.int64)]


def uniform(times: np.ndarray, num_frames: int) -> np.ndarray:
    """Sample evenly over all frames, first and last included."""
    return spread(np.arange(len(times)), num_frames)


def per_second(times: np.ndarray, num_frames: int) -> np.ndarray:
    """Sample the first frame of every second, then evenly over those (CLIP4Clip)."""
    return spread(_first_of_each(times, 1), num_frames)


def per_second_random(times: np.ndarray, num_frames: int) -> np.ndarray:
    """Sample a frame a second from a random one of the first second on, then evenly over those.

    UATVR's training; its test is :func:`per_second`.  At 30 frames a second the first frame is one
    of 0 to 28, as there: the last frame of the first second is never drawn.  numpy's generator.
    """
    within = int(np.searchsorted(times, times[0] + 1 - TIME_SLACK))
    begin = np.random.randint(max(1, within - 1))
    return spread(begin + _first_of_each(times[begin:], 1), num_frames)


def _first_of_each(times: np.ndarray, rate: int) -> np.ndarray:
    """Return the first frame of every ``1 / rate`` s that has one."""
    ticks = np.floor((times - times[0] + TIME_SLACK) * rate)
    ticks = np.unique([ticks, ticks + 1]) / rate  # + 1: a frame may lie just before a tick
    ticks = times[0] + ticks[ticks < times[-1] - times[0] + TIME_SLACK]
    return np.unique(np.searchsorted(times, ticks - TIME_SLACK))


def stride(times: np.ndarray, num_frames: int) -> np.ndarray:
    """Sample every ``round(fps)``-th frame, then evenly over those (DRL)."""
    span = times[-1] - times[0]
    rate = (len(times) - 1) / span if span > 0 else 1.0
    return spread(np.arange(0, len(times), max(1, round(rate))), num_frames)


def segment_random(times: np.ndarray, num_frames: int) -> np.ndarray:
    """Sample a random frame of each of ``num_frames`` equal segments (numpy's generator)."""
    if len(times) <= num_frames:
        return np.arange(len(times))
    edges = _edges(len(times), num_frames)
    return np.random.randint(edges[:-1], edges[1:])


def segment_centre(times: np.ndarray, num_frames: int) -> np.ndarray:
    """Sample the middle frame of each segment, for tests of :func:`segment_random`."""
    if len(times) <= num_frames:
        return np.arange(len(times))
    edges = _edges(len(times), num_frames)
    return (edges[:-1] + edges[1:] - 1) // 2


def _edges(count: int, num_frames: int) -> np.ndarray:
    return np.arange(num_frames + 1) * count // num_frames


SAMPLING: dict[str, Callable[[np.ndarray, int], np.ndarray]] = dict(
    uniform=uniform,
    per_second=per_second,
    per_second_random=per_second_random,
    stride=stride,
    segment_random=segment_random,
    segment_centre=segment_centre,
)


def at_rate(times: np.ndarray, fps: Optional[int]) -> np.ndarray:
    """Return a clip's frames that a store keeps: the first of every ``1 / fps`` s, and the last.

    Applied to the kept times, :func:`per_second` chooses the same frames as from all times: the
    first of each second is kept, and so is the end.

    Args:
        times: as above.
        fps: frames per second, at least 1; None = all frames.

    Returns:
        Increasing positions, int64 [n].
    """
    if fps is None:
        return np.arange(len(times))
    first = _first_of_each(times, fps)
    return np.unique([*first, *per_second(times, len(times)), len(times) - 1])


def sampling_named(kind: str) -> Callable[[np.ndarray, int], np.ndarray]:
    """Return the sampling function of that name.

    Raises:
        ValueError: no such kind.
    """
    if kind not in SAMPLING:
        raise ValueError(f'frame sampling {kind!r}: expected one of {sorted(SAMPLING)}')
    return SAMPLING[kind]


def window(
    times: np.ndarray,
    start: Optional[float],
    end: Optional[float],
    last: Optional[float] = None,
) -> slice:
    """Return positions of the frames on screen between ``start`` and ``end``.

    Args:
        times: seconds from the start of the file, float64 [N], increasing.
        start: seconds, None = the beginning; the frame on screen at ``start`` belongs to the clip.
        end: seconds, exclusive; None, or past the last frame = the end of the file.
        last: seconds until which the last frame is shown; None: as long as the others on average.

    Raises:
        ValueError: an empty window, one that starts after the last frame, or one that ends before
            the first.
    """
    gap = (times[-1] - times[0]) / max(1, len(times) - 1)
    first, last = times[0], times[-1] + gap if last is None else last
    slack = min(TIME_SLACK, gap / 2)
    begin, stop = start or 0.0, np.inf if end is None else end
    if begin >= stop or begin > last or stop <= first + slack * (first > 0):
        late = f', and shows its first picture at {first:.2f} s' if first > 0 else ''
        raise ValueError(
            f'no frame between {begin} s and {stop} s: the video lasts {last:.2f} s{late}'
        )
    left = max(0, int(np.searchsorted(times, begin + slack, side='right')) - 1)
    right = int(np.searchsorted(times, stop - slack))
    return slice(left, max(left + 1, right))
