"""Opening of video files with ffmpeg: the video stream that a player shows, and its clock.

Only regular files are opened (a named pipe would wait for a writer), never files that a file refers
to. Titles and other metadata are not read.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

import av
import numpy as np
from av.container import InputContainer
from av.stream import Disposition

from mmvtr.datasets.videos.decoding_limits import limit_pictures
from mmvtr.datasets.videos.frame_sampling import TIME_SLACK
from mmvtr.datasets.videos.listed_packets import Packets, end_of, rate_of
from mmvtr.datasets.videos.packet_times import BrokenVideoError
from mmvtr.datasets.videos.stated_size import stated_size
from mmvtr.datasets.videos.transport_stream import EachOnce

#: Formats for which ffmpeg opens a device or the files that a file refers to.
LISTS = {
    'alsa', 'concat', 'dash', 'fbdev', 'hls', 'image2', 'imf', 'lavfi', 'rtsp', 'sdp',
    'video4linux2,v4l2', 'webm_dash_manifest', 'x11grab',
}  # fmt: skip
#: First bytes of playlists, for the message: ffmpeg does not state which format it has rejected.
LIST_MARKS = (b'ffconcat', b'#EXTM3U', b'v=0', b'<MPD', b'<?xml')

#: Formats with an index, whose times are stored with each picture.
INDEXED = ('mov', 'matroska')
#: Maximum number of pictures that are decoded before one that is shown earlier (H.264, H.265).
MAX_REORDER = 16

#: A title may be Latin-1. PyAV 19 lacks this option, and never refuses one.
LENIENT = {} if int(av.__version__.split('.')[0]) >= 19 else dict(metadata_errors='replace')


@contextmanager
def errors_name(path: str) -> Iterator[None]:
    """Add the file's name to errors raised inside.

    Raises:
        BrokenVideoError: from one without a file name, and from any error of ffmpeg.
        FileNotFoundError: no such file.
    """
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f'no such video: {path}') from None
    except (BrokenVideoError, av.error.FFmpegError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise BrokenVideoError(f'{path}: {reason}') from error


def missing_bytes(path: str) -> Optional[str]:
    """Return a description of how many bytes the file lacks (:mod:`.stated_size`), or None.

    Raises:
        BrokenVideoError: an invalid file name, or not a regular file.
        FileNotFoundError: no such file.
    """
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
    if stated is None or stated <= about.st_size:
        return None
    return f'cut short: {about.st_size:,} bytes of {stated:,} or more'


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, 'folder'),
        (stat.S_ISFIFO, 'named pipe'),
        (stat.S_ISSOCK, 'socket'),
        (stat.S_ISCHR, 'device'),
        (stat.S_ISBLK, 'device'),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), 'special file')


@contextmanager
def open_video(
    path: str, each_once: Optional[EachOnce] = None
) -> Iterator[tuple[InputContainer, av.VideoStream]]:
    """Yield the container and the video stream that players show (cover pictures are excluded).

    Args:
        path: a video file.
        each_once: the same file, a transport stream, without its repeated packets.

    Raises:
        BrokenVideoError: a list of other files, or no video stream; the path is not in the message,
            :func:`errors_name` adds it.
    """
    opened = _container(path) if each_once is None else av.open(each_once, format='mpegts')
    with opened as container:
        streams = [s for s in container.streams.video if _moves(s)]
        if not streams:
            raise BrokenVideoError('no video stream')
        stream = max(streams, key=_rank)
        stream.codec_context.thread_count = 1  # data workers provide the parallelism
        limit_pictures(stream)
        yield container, stream


def _container(path: str) -> InputContainer:
    """Return the file as an ffmpeg container that opens no other file.

    Raises:
        BrokenVideoError: a list of other files.
    """
    try:
        # Without "file:" ffmpeg takes text before a colon for a protocol.
        allowed = dict(format_whitelist=_whole_files(), protocol_whitelist='file')
        return av.open('file:' + path, options=allowed, **LENIENT)
    except (av.error.ArgumentError, av.error.InvalidDataError):
        with open(path, 'rb') as file:
            head = file.read(64).lstrip(b'\xef\xbb\xbf \t\r\n')
        if head.startswith(LIST_MARKS):
            raise BrokenVideoError('a list of other files, not a video') from None
        raise


@cache
def _whole_files() -> str:
    """Return the formats that ffmpeg reads from a single file, for ``format_whitelist``."""
    return ','.join(sorted(name for name in av.formats_available if name not in LISTS))


def _moves(stream: av.VideoStream) -> bool:
    known_codec = stream.codec_context is not None
    return known_codec and not stream.disposition & Disposition.attached_pic


def _rank(stream: av.VideoStream) -> tuple[bool, bool, int]:
    """Return a sort key: default tracks first, then those of several pictures, then larger ones.

    Of equal ranks the first track is shown.
    """
    area = stream.codec_context.width * stream.codec_context.height
    return bool(stream.disposition & Disposition.default), stream.frames != 1, area


@contextmanager
def cut_short(missing: Optional[str]) -> Iterator[None]:
    """Raise BrokenVideoError with ``missing``, if bytes are, in place of an error of ffmpeg."""
    try:
        yield
    except av.error.FFmpegError as error:
        if missing:
            raise BrokenVideoError(missing) from error
        raise


def duration_of(path: str) -> float:
    """Return the seconds from the beginning of a file to the end of its last picture.

    Clock and errors: see :func:`pictures_span`.
    """
    return pictures_span(path)[1]


def pictures_span(path: str) -> tuple[float, float]:
    """Return the seconds at which a file's first picture appears and its last one ends.

    They are those of the pictures' packets, which are not decoded, never of a header, in which
    sound and subtitles count as well.  The clock is that of
    :func:`~mmvtr.datasets.videos.video_io.read_frames`: 0 is the beginning of the first stream,
    sound included.  Of a file with an index only the first and the last pictures are read.

    Args:
        path: a video file.

    Raises:
        BrokenVideoError: no video stream, no picture, a truncated file, or not a video file.
        FileNotFoundError: no such file.
    """
    with errors_name(path):
        missing = missing_bytes(path)
        if missing is None:
            with open_video(path) as (container, stream):
                span = _span_by_index(container, stream)
            if span is not None:
                return span
        with cut_short(missing), open_video(path) as (container, stream):
            packets = Packets(container, stream)
            pictures = _pictures(packets)
            packets.check(missing, len(pictures))
            return _span(pictures, container, stream)


def _span_by_index(
    container: InputContainer, stream: av.VideoStream
) -> Optional[tuple[float, float]]:
    """Return the span from the first and the last pictures; None: the whole file must be read."""
    if not container.duration or not any(name in container.format.name for name in INDEXED):
        return None
    enough, packets, unit = MAX_REORDER + 1, Packets(container, stream), float(stream.time_base)
    end = ((start_of(container) or 0.0) + container.duration / av.time_base) / unit
    try:
        first = _pictures(container.demux(stream), enough)
        for _ in range(2):  # the pictures may end long before the file
            container.seek(int(end - 2 * enough / rate_of(stream) / unit), stream=stream)
            last = _pictures(packets)
            if len(last) >= enough or any(picture.pts is None for picture in last):
                break
            end = max((picture.pts for picture in last), default=0)
        packets.check(None, len(last))
    except (BrokenVideoError, av.error.FFmpegError):
        return None
    timed = all(picture.pts is not None for picture in first + last)
    if not timed or len(last) < enough or not last[-1].duration:
        return None
    return _span(first + last, container, stream)


class _Picture(NamedTuple):
    """Time and duration of a picture's packet, in the unit of its stream."""

    pts: Optional[int]
    duration: Optional[int]


def _pictures(packets: Iterable[av.Packet], most: Optional[int] = None) -> list[_Picture]:
    """Return the shown pictures in decoding order, at most ``most``."""
    shown = (_Picture(p.pts, p.duration) for p in packets if p.size and not p.is_discard)
    return list(islice(shown, most))


def _span(
    pictures: Sequence[_Picture], container: InputContainer, stream: av.VideoStream
) -> tuple[float, float]:
    """Return begin and end of the pictures, seconds; without times of their own they are counted.

    Args:
        pictures: in decoding order, all that could be shown first or last.
        container, stream: the open file.
    """
    if not pictures:
        raise BrokenVideoError('no picture')
    pts = [picture.pts for picture in pictures]
    if None in pts:
        return 0.0, len(pts) / rate_of(stream)
    ends = min(pts), end_of(pts, pictures[-1].duration, stream)
    begin, end = on_the_clock(ends, container, stream).tolist()
    return begin, end


def on_the_clock(
    pts: Sequence[int], container: InputContainer, stream: av.VideoStream
) -> np.ndarray:
    """Return a stream's times as seconds of a player, float64 [N].

    Args:
        pts: increasing, the first is that of the stream's first picture.
        container, stream: the open file.
    """
    unit, start = float(stream.time_base), start_of(container)
    late = 0.0 if start is None else pts[0] * unit - start
    return (np.asarray(pts) - pts[0]) * unit + (late if late > TIME_SLACK else 0.0)


def start_of(container: InputContainer) -> Optional[float]:
    """Return the second at which a player begins, the earliest of all streams; or None."""
    return None if container.start_time is None else container.start_time / av.time_base
