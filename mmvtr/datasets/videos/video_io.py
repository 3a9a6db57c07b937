"""Selected frames of a video file, as RGB arrays.

Headers may be wrong about frame counts and rates, so the packets are listed first, without
decoding: their presentation times are the frames', at any frame rate.  One decoding pass then picks
the chosen times, seeking past what no chosen frame needs; only chosen frames are converted and
kept.

Containers may also be wrong about key frames, and some store no presentation times.  So what is
decoded after a seek must begin with a picture that needs no other, and continue with exactly the
listed times.  Otherwise the file is decoded from its first picture; if that does not match the list
either, the pictures are counted.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import contextmanager
from itertools import chain
from typing import (
    BinaryIO,
    Callable,
    Iterable,
    Iterator,
    NamedTuple,
    Optional,
    Sequence,
    TypeVar,
    Union,
)

import av
import numpy as np
from av.container import InputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType

from mmvtr.datasets.videos.decoding_limits import decoded
from mmvtr.datasets.videos.frame_sampling import window
from mmvtr.datasets.videos.listed_packets import Listed, list_packets, rate_of, runs
from mmvtr.datasets.videos.packet_times import Clock, DoubledError
from mmvtr.datasets.videos.shown_pictures import ShownPictures
from mmvtr.datasets.videos.transport_stream import EachOnce
from mmvtr.datasets.videos.video_files import (
    BrokenVideoError,
    cut_short,
    errors_name,
    missing_bytes,
    on_the_clock,
    open_video,
)

#: Maximum bytes of a clip's chosen frames, as RGB: 170 of 3840 x 2160 pixels.
MAX_BYTES = 4 << 30

Select = Callable[[np.ndarray], np.ndarray]
T = TypeVar('T')


def read_frames(
    path: str,
    select: Select,
    *,
    start: Optional[float] = None,
    end: Optional[float] = None,
    max_bytes: int = MAX_BYTES,
) -> list[np.ndarray]:
    """Return selected frames of the video stream that players show, upright, with square pixels.

    Seconds are those of a player: 0 is the beginning of the file, which is that of its sound if
    that precedes the first picture.

    Args:
        path: video file, any container and codec that ffmpeg reads.
        select: function from presentation times (seconds in the file, float64 [N], increasing) to
            increasing positions among them, int64 [n]; see
            :mod:`mmvtr.datasets.videos.frame_sampling`.
        start: seconds into the file where the clip starts; None = its beginning.
        end: seconds into the file where the clip ends, exclusive; None = its end.
        max_bytes: maximum bytes of the n arrays together.

    Returns:
        n arrays, uint8 RGB [H, W, 3].

    Raises:
        BrokenVideoError: not a regular file, a truncated one (if it states its size,
            :mod:`mmvtr.datasets.videos.stated_size`), no video stream, no frame, data that cannot
            be decoded, an empty clip, more than ``max_bytes``.
        FileNotFoundError: no such file.
    """
    with errors_name(path):
        clip = _Clip(path, select, start, end, max_bytes, missing_bytes(path))
        frames = _each_packet_once(_read, clip)
        _check_sizes({frame.shape[:2] for frame in frames})
        return frames


def decode_all(
    path: str,
    *,
    start: Optional[float] = None,
    end: Optional[float] = None,
    max_bytes: int = MAX_BYTES,
) -> int:
    """Decode all frames of a clip without keeping them, to verify the file.

    Args:
        path, start, end: see :func:`read_frames`.
        max_bytes: maximum bytes of one frame.

    Returns:
        The number of frames.

    Raises:
        BrokenVideoError, FileNotFoundError: see :func:`read_frames`.
    """
    with errors_name(path):
        missing = missing_bytes(path)
        clip = _Clip(path, _all, start, end, max_bytes, missing, keeps=False)
        return _each_packet_once(_count, clip)


def _each_packet_once(read: Callable[[_Clip], T], clip: _Clip) -> T:
    """Read a file; if its transport stream repeats packets, read it again without the copies."""
    try:
        return read(clip)
    except DoubledError:
        pass
    try:
        return read(clip._replace(each_once=True))
    except DoubledError:
        raise BrokenVideoError('packets are repeated even after copies were left out') from None


def _read(clip: _Clip) -> list[np.ndarray]:
    frames = _read_by_time(clip)
    return _read_by_count(clip) if frames is None else frames


def _count(clip: _Clip) -> int:
    frames = _read_by_time(clip)
    if frames is not None:
        return len(frames)
    with _open(clip) as (container, stream):
        shown = _same_size(_all_sound(decoded(_packets(container, stream))))
        return len(_choose(_times_shown(container, stream, shown), clip))


def _all(times: np.ndarray) -> np.ndarray:
    return np.arange(len(times))


class _Clip(NamedTuple):
    """Arguments of :func:`read_frames`.

    ``missing``: a description of the bytes that the file lacks; ``keeps``: keep the pictures, not
    just their number; ``each_once``: leave out repeated packets of a transport stream.
    """

    path: str
    select: Select
    start: Optional[float]
    end: Optional[float]
    max_bytes: int
    missing: Optional[str] = None
    keeps: bool = True
    each_once: bool = False

    def source(self) -> BinaryIO:
        """Open the bytes to decode."""
        return EachOnce(self.path) if self.each_once else open(self.path, 'rb')

    def check_memory(
        self,
        picture: Union[av.VideoFrame, VideoCodecContext],
        shown: ShownPictures,
        count: int,
    ) -> None:
        """Raise if ``count`` pictures of that size exceed the limit, before allocating memory."""
        width, height = max(picture.width, shown.width(picture.width)), picture.height
        count = count if self.keeps else 1
        if 3 * width * height * count > self.max_bytes:
            raise BrokenVideoError(
                f'{count} frames of {width} x {height} pixels take '
                f'{3e-9 * width * height * count:.3g} GB, more than the '
                f'{1e-9 * self.max_bytes:.3g} GB of max_bytes'
            )


class _NotAsListedError(Exception):
    """The decoded pictures do not match the list of packets."""


def _read_by_time(clip: _Clip) -> Optional[list[np.ndarray]]:
    """Return the selected frames; None if the packets have no presentation times."""
    with _open(clip) as (container, stream):
        listed = list_packets(container, stream, clip.source, clip.missing)
        if listed is None:
            return None
        seconds = on_the_clock([*listed.pts, listed.end], container, stream)
        times = seconds[:-1]
        chosen = _choose(times, clip, seconds[-1])
        stamps = [listed.pts[i] for i in chosen]
        _check_damage(listed, chosen, times, clip)
        clip.check_memory(stream.codec_context, ShownPictures(stream), len(stamps))
        try:
            if listed.ordered:
                return _read_with_jumps(container, stream, listed, stamps, clip)
        except (_NotAsListedError, BrokenVideoError, av.error.FFmpegError):
            pass  # a seek may be the cause
    with _open(clip) as (container, stream):
        try:
            return _pick(_from_here(container, stream, listed), stream, stamps, clip, len(stamps))
        except _NotAsListedError:
            if listed.damaged:  # counting would pick other pictures
                raise BrokenVideoError(
                    'some pictures do not have the times of their packets, and others are damaged'
                ) from None
            return None


def _read_with_jumps(
    container: InputContainer,
    stream: av.VideoStream,
    listed: Listed,
    stamps: Sequence[int],
    clip: _Clip,
) -> list[np.ndarray]:
    """Return the frames at the times ``stamps``, each decoded from a key frame before it."""
    if listed.doubtful:
        _check_first(container, stream, listed)
    frames: list[np.ndarray] = []
    for key, run in runs(stamps, listed):
        container.seek(key, stream=stream)
        frames += _pick(_from_here(container, stream, listed), stream, run, clip, len(stamps))
    return frames


def _check_damage(listed: Listed, chosen: Sequence[int], times: np.ndarray, clip: _Clip) -> None:
    """Raise if a selected picture is damaged; damage elsewhere in the file is ignored."""
    bad = [i for i in chosen if listed.pts[i] in listed.damaged]
    if bad:
        raise BrokenVideoError(
            clip.missing
            or f'damaged pictures at {times[bad[0]]:.2f} s: data are missing in '
            f'{len(listed.damaged)} of {len(listed.pts)} pictures'
        )


def _check_first(container: InputContainer, stream: av.VideoStream, listed: Listed) -> None:
    """Raise unless the first decoded picture has the first listed time.

    Raises:
        _NotAsListedError: it has another, e.g. if a file begins inside a group of pictures.
    """
    container.seek(listed.pts[0], stream=stream)
    frame = next(_from_here(container, stream, listed), None)
    if frame is None or frame.pts != listed.pts[0]:
        raise _NotAsListedError


def _from_here(
    container: InputContainer, stream: av.VideoStream, listed: Listed
) -> Iterator[av.VideoFrame]:
    """Yield the undamaged frames from the container's position on, as listed by the packets.

    Raises:
        _NotAsListedError: a frame at another time than the next one of the list; or, anywhere but
            at the beginning of the file, a picture that needs others where a key frame should be.
    """
    packets = _packets(container, stream)
    landed = next((packet for packet in packets if packet.size), None)
    if landed is None or landed.pts is None:
        raise _NotAsListedError
    beginning = landed.pts == listed.first
    place = 0 if beginning else bisect_left(listed.sound, landed.pts)
    keys = () if beginning else {landed.pts, *listed.keys}
    for frame in decoded(chain([landed], packets)):
        time = frame.pts
        if time in listed.damaged:
            continue
        if time is None or place == len(listed.sound):
            raise _NotAsListedError
        if time < landed.pts and not beginning:
            continue  # it refers to a picture before the key frame, and is shown before it
        if time != listed.sound[place] or (time in keys and not _stands_alone(frame)):
            raise _NotAsListedError
        place += 1
        yield frame


def _packets(container: InputContainer, stream: av.VideoStream) -> Iterator[av.Packet]:
    """Yield the stream's packets on a player's clock, from the container's position on."""
    return Clock(container).joined(container.demux(stream))


def _stands_alone(frame: av.VideoFrame) -> bool:
    """Return whether the decoder, not the container, marks a picture as intra-coded key frame."""
    return frame.key_frame and frame.pict_type in (PictureType.I, PictureType.SI)


def _pick(
    shown: Iterator[av.VideoFrame],
    stream: av.VideoStream,
    run: Sequence[int],
    clip: _Clip,
    count: int,
) -> list[np.ndarray]:
    """Return the frames at times ``run``, of ``count`` in all; empty arrays unless ``clip.keeps``.

    Raises:
        _NotAsListedError: some are not shown.
    """
    frames: list[np.ndarray] = []
    stamps, pictures = set(run), ShownPictures(stream)
    for frame, sound in _judged(shown if clip.keeps else _same_size(shown)):
        if frame.pts in stamps:
            _check_sound(frame, sound)
            clip.check_memory(frame, pictures, count)
            frames.append(pictures.rgb(frame) if clip.keeps else np.empty(0))
        if frame.pts >= run[-1]:
            break
    if len(frames) < len(run):
        raise _NotAsListedError
    return frames


def _read_by_count(clip: _Clip) -> list[np.ndarray]:
    """Return the selected frames by decoding everything twice and counting the frames."""
    with _open(clip) as (container, stream):
        times = _times_shown(container, stream, decoded(_packets(container, stream)))
    positions, frames = set(_choose(times, clip)), []
    with _open(clip) as (container, stream):
        pictures = ShownPictures(stream)
        for i, (frame, sound) in enumerate(_judged(decoded(container.demux(stream)))):
            if i in positions:
                _check_sound(frame, sound)
                clip.check_memory(frame, pictures, len(positions))
                frames.append(pictures.rgb(frame))
    return frames


def _times_shown(
    container: InputContainer, stream: av.VideoStream, shown: Iterator[av.VideoFrame]
) -> np.ndarray:
    """Return the presentation times of the frames, seconds, float64 [N], increasing."""
    pts = [frame.pts for frame in shown]
    if not pts:
        raise BrokenVideoError('no frame')
    if None in pts or len(set(pts)) == 1:
        return np.arange(len(pts)) / rate_of(stream)
    if any(b <= a for a, b in zip(pts, pts[1:])):  # out of order: only their span is meaningful
        return np.linspace(*on_the_clock([min(pts), max(pts)], container, stream), len(pts))
    return on_the_clock(pts, container, stream)


def _choose(times: np.ndarray, clip: _Clip, last: Optional[float] = None) -> list[int]:
    """Return the positions of the clip's selected frames among all frames."""
    try:
        part = window(times, clip.start, clip.end, last)
    except ValueError as error:
        raise BrokenVideoError(str(error)) from None
    return (part.start + clip.select(times[part])).tolist()


def _judged(shown: Iterable[av.VideoFrame]) -> Iterator[tuple[av.VideoFrame, bool]]:
    """Yield pictures, and whether they are sound: not concealed by the decoder after damage, nor
    predicted from a picture that is."""
    sound = True
    for frame in shown:
        sound = not frame.is_corrupt and (sound or _stands_alone(frame))
        yield frame, sound


def _all_sound(shown: Iterable[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    for frame, sound in _judged(shown):
        _check_sound(frame, sound)
        yield frame


def _check_sound(frame: av.VideoFrame, sound: bool) -> None:
    if not sound:
        raise BrokenVideoError(f'damaged pictures at {frame.time} s')


def _same_size(shown: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    size = None
    for frame in shown:
        size = size or (frame.height, frame.width)
        _check_sizes({size, (frame.height, frame.width)})
        yield frame


def _check_sizes(sizes: set[tuple[int, ...]]) -> None:
    if len(sizes) > 1:
        raise BrokenVideoError(f'pictures of several sizes: {sorted(sizes)}')


@contextmanager
def _open(clip: _Clip) -> Iterator[tuple[InputContainer, av.VideoStream]]:
    """Yield the open file, if one of its pictures fits into memory.

    Raises:
        BrokenVideoError: errors of open_video, a picture that is too large, or any error of ffmpeg
            if bytes are missing.
    """
    each_once = EachOnce(clip.path) if clip.each_once else None
    with cut_short(clip.missing), open_video(clip.path, each_once) as (container, stream):
        clip.check_memory(stream.codec_context, ShownPictures(stream), 1)
        yield container, stream
