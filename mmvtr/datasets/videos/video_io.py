"""Chosen frames of a video file, as RGB arrays.

Headers lie about frame counts and rates, so the packets are listed first, without decoding: their
presentation times are the frames', at any frame rate. One decoding pass then picks the chosen
times, jumping over what no chosen frame needs; only chosen frames are converted and kept.

What is no ordinary file (a named pipe would wait for a writer) is refused before it is opened, and
so is a file with fewer bytes than it says of itself.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from contextlib import contextmanager
from typing import Callable, Iterator, NamedTuple, Optional, Sequence, Union

import av
import numpy as np
from av.container import InputContainer
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import VideoReformatter

from mmvtr.datasets.videos.frame_sampling import window
from mmvtr.datasets.videos.stated_size import stated_size

#: Frames that a seek must skip to be worth its cost.
MIN_JUMP = 8

#: Share of its length that a header may promise and a file not hold, and seconds that it may.
MAX_SHORTFALL = 0.1
MAX_SECONDS_SHORT = 0.5

#: Bytes that the chosen frames of a clip may take, as RGB: 170 of 3840 x 2160 pixels.
MAX_BYTES = 4 << 30

#: A title may be Latin-1. PyAV 19 knows no such option, and never refuses one.
LENIENT = {} if int(av.__version__.split('.')[0]) >= 19 else dict(metadata_errors='replace')

#: Formats whose files are a few lines of text, in place of which ffmpeg opens what they name.
LISTS = ('concat', 'hls', 'dash')

Select = Callable[[np.ndarray], np.ndarray]


class BrokenVideoError(RuntimeError):
    """A video file that cannot give the frames asked for; the message names it."""


def read_frames(
    path: str,
    select: Select,
    *,
    start: Optional[float] = None,
    end: Optional[float] = None,
    max_bytes: int = MAX_BYTES,
) -> list[np.ndarray]:
    """Decode the selected frames of the first video stream, upright.

    Args:
        path: video file, any container and codec that ffmpeg reads.
        select: from presentation times (seconds in the file, float64 [N], increasing) to
            increasing positions among them, int64 [n]; see
            :mod:`mmvtr.datasets.videos.frame_sampling`.
        start: seconds into the file where the clip starts; None = its beginning.
        end: seconds into the file where the clip ends, exclusive; None = its end.
        max_bytes: that the n arrays may take together.

    Returns:
        n arrays, uint8 RGB [H, W, 3].

    Raises:
        BrokenVideoError: no ordinary file, one that was cut short (where it says how long it was,
            :mod:`mmvtr.datasets.videos.stated_size`), no video stream, no frame, data that cannot
            be decoded, an empty clip, more than ``max_bytes``.
        FileNotFoundError: no such file.
    """
    with _errors_name(path):
        _check_file(path)
        clip = _Clip(path, select, start, end, max_bytes)
        frames = _read_by_time(clip)
        if frames is None:
            frames = _read_by_count(clip)
        _check_sizes({frame.shape[:2] for frame in frames})
        return frames


def decode_all(
    path: str,
    *,
    start: Optional[float] = None,
    end: Optional[float] = None,
    max_bytes: int = MAX_BYTES,
) -> int:
    """Decode all frames of a clip and keep none: does the file give all that it should?

    Args:
        path, start, end: as of :func:`read_frames`.
        max_bytes: that one frame may take.

    Returns:
        How many frames there are.

    Raises:
        BrokenVideoError, FileNotFoundError: as :func:`read_frames`.
    """
    with _errors_name(path):
        _check_file(path)
        clip = _Clip(path, lambda times: np.arange(len(times)), start, end, max_bytes)
        with _open(clip) as (container, stream):
            listed = _list_packets(container, stream)
            if listed is not None:
                pts, keys = listed
                wanted = [pts[i] for i in _choose(pts, float(stream.time_base), clip)]
                ((key, _),) = _runs(wanted[:1], pts, keys)
                if _seek(container, stream, key):
                    shown = _same_size(_shown(container, stream))
                    if sum(1 for _ in _pick(shown, wanted)) == len(wanted):
                        return len(wanted)
        with _open(clip) as (container, stream):
            pts, unit = _times(stream, _same_size(_shown(container, stream)))
        return len(_choose(pts, unit, clip))


class _Clip(NamedTuple):
    """What :func:`read_frames` is asked for."""

    path: str
    select: Select
    start: Optional[float]
    end: Optional[float]
    max_bytes: int

    def check_memory(self, picture: Union[av.VideoFrame, VideoCodecContext], count: int) -> None:
        """Refuse ``count`` pictures of that size before anything is allocated for them."""
        width, height = picture.width, picture.height
        if 3 * width * height * count > self.max_bytes:
            raise BrokenVideoError(
                f'{count} frames of {width} x {height} pixels take '
                f'{3e-9 * width * height * count:.3g} GB, more than the '
                f'{1e-9 * self.max_bytes:.3g} GB of max_bytes'
            )


def _check_file(path: str) -> None:
    """Refuse what cannot be opened or is known to be cut, by its size and a few reads."""
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            raise BrokenVideoError(f'a file expected, not a {_kind(about.st_mode)}')
        with open(path, 'rb') as file:
            stated = stated_size(file, about.st_size)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise BrokenVideoError(getattr(error, 'strerror', None) or str(error)) from error
    if stated is not None and stated > about.st_size:
        raise BrokenVideoError(f'cut short: {about.st_size:,} bytes of {stated:,} or more')


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, 'folder'),
        (stat.S_ISFIFO, 'named pipe'),
        (stat.S_ISSOCK, 'socket'),
        (stat.S_ISCHR, 'device'),
        (stat.S_ISBLK, 'device'),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), 'special file')


def _read_by_time(clip: _Clip) -> Optional[list[np.ndarray]]:
    """The selected frames, or None where packets are not frames (hidden, doubled, without time)."""
    with _open(clip) as (container, stream):
        listed = _list_packets(container, stream)
        if listed is None:
            return None
        pts, keys = listed
        wanted = [pts[i] for i in _choose(pts, float(stream.time_base), clip)]
        clip.check_memory(stream.codec_context, len(wanted))
        frames: list[np.ndarray] = []
        converter = VideoReformatter()
        for key, run in _runs(wanted, pts, keys):
            if not _seek(container, stream, key):
                return None
            for frame in _pick(_shown(container, stream), run):
                clip.check_memory(frame, len(wanted))
                frames.append(_rgb(frame, converter))
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
        _check_length(container, last)
    usable = None not in pts and len(set(pts)) == len(pts)
    return (sorted(pts), sorted(keys)) if usable else None


def _check_length(container: InputContainer, last: float) -> None:
    """These end without an error where their data end, but their header says how long they are."""
    states_length = any(name in container.format.name for name in ('matroska', 'avi', 'flv'))
    length = (container.duration or 0) / av.time_base
    missing = length - last
    if states_length and missing > max(MAX_SHORTFALL * length, MAX_SECONDS_SHORT):
        raise BrokenVideoError(f'ends at {last:.2f} s of {length:.2f} s')


def _seek(container: InputContainer, stream: av.VideoStream, key: int) -> bool:
    """Go to a key frame; some program streams (mpg) do not allow it, whole as they are."""
    try:
        container.seek(key, stream=stream)
    except av.error.PermissionError:
        return False
    return True


def _pick(shown: Iterator[av.VideoFrame], run: Sequence[int]) -> Iterator[av.VideoFrame]:
    """The frames at the times ``run``; fewer if some are not shown or times are out of order."""
    wanted, last = set(run), None
    for frame in shown:
        if frame.pts is None or (last is not None and frame.pts <= last):
            break
        last = frame.pts
        if last in wanted:
            yield frame
        if last >= run[-1]:
            break


def _read_by_count(clip: _Clip) -> list[np.ndarray]:
    """The selected frames, by decoding everything twice and counting what is shown."""
    with _open(clip) as (container, stream):
        pts, unit = _times(stream, _shown(container, stream))
    wanted, frames = set(_choose(pts, unit, clip)), []
    with _open(clip) as (container, stream):
        converter = VideoReformatter()
        for i, frame in enumerate(_shown(container, stream)):
            if i in wanted:
                clip.check_memory(frame, len(wanted))
                frames.append(_rgb(frame, converter))
    return frames


def _times(stream: av.VideoStream, shown: Iterator[av.VideoFrame]) -> tuple[list[int], float]:
    """When the frames are shown, increasing, and the unit in seconds."""
    pts = [frame.pts for frame in shown]
    rate = float(stream.average_rate or 1)
    unit = float(stream.time_base)
    if None in pts:
        return list(range(len(pts))), 1 / rate
    if any(b <= a for a, b in zip(pts, pts[1:])):  # out of order: only their span means something
        return list(range(len(pts))), unit * (max(pts) - min(pts)) / (len(pts) - 1) or 1 / rate
    return pts, unit


def _choose(pts: Sequence[int], unit: float, clip: _Clip) -> list[int]:
    """Positions in ``pts`` (increasing, in ``unit`` seconds) of the selected frames of the clip."""
    if not pts:
        raise BrokenVideoError('no frame')
    times = (np.asarray(pts) - pts[0]) * unit
    try:
        part = window(times, clip.start, clip.end)
    except ValueError as error:
        raise BrokenVideoError(str(error)) from None
    return (part.start + clip.select(times[part])).tolist()


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


def _same_size(shown: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    size = None
    for frame in shown:
        size = size or (frame.height, frame.width)
        _check_sizes({size, (frame.height, frame.width)})
        yield frame


def _check_sizes(sizes: set[tuple[int, ...]]) -> None:
    if len(sizes) > 1:
        raise BrokenVideoError(f'pictures of several sizes: {sorted(sizes)}')


def _rgb(frame: av.VideoFrame, converter: VideoReformatter) -> np.ndarray:
    """Uint8 [H, W, 3], turned by the display matrix.

    One converter a file: ``frame.to_ndarray`` would set up a new one for each frame, half the time
    of reading a small clip.
    """
    image = converter.reformat(frame, format='rgb24').to_ndarray()
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))


@contextmanager
def _open(clip: _Clip) -> Iterator[tuple[InputContainer, av.VideoStream]]:
    """The container and its first stream of moving pictures (a cover picture is none)."""
    with av.open(clip.path, **LENIENT) as container:
        if container.format.name in LISTS:
            raise BrokenVideoError(f'a list of other files ({container.format.name}), not a video')
        streams = [s for s in container.streams.video if _moves(s)]
        if not streams:
            raise BrokenVideoError('no video stream')
        clip.check_memory(streams[0].codec_context, 1)
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
