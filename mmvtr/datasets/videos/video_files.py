"""Opening of video files with ffmpeg: the video stream that a player shows, and its clock.

Only regular files are opened (a named pipe would wait for a writer), never files that a file refers
to. Titles and other metadata are not read.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from functools import cache
from typing import Iterator, Optional

import av
from av.container import InputContainer
from av.stream import Disposition

from mmvtr.datasets.videos.decoding_limits import limit_pictures
from mmvtr.datasets.videos.packet_times import MAY_JUMP, Clock
from mmvtr.datasets.videos.stated_size import stated_size
from mmvtr.datasets.videos.transport_stream import EachOnce

#: Formats for which ffmpeg opens a device or the files that a file refers to.
LISTS = {
    'alsa', 'concat', 'dash', 'fbdev', 'hls', 'image2', 'imf', 'lavfi', 'rtsp', 'sdp',
    'video4linux2,v4l2', 'webm_dash_manifest', 'x11grab',
}  # fmt: skip
#: First bytes of playlists, for the message: ffmpeg does not state which format it has rejected.
LIST_MARKS = (b'ffconcat', b'#EXTM3U', b'v=0', b'<MPD', b'<?xml')

#: Formats whose header may count from zero although the timestamps do not.
FROM_ZERO = ('matroska', 'flv')

#: A title may be Latin-1. PyAV 19 lacks this option, and never refuses one.
LENIENT = {} if int(av.__version__.split('.')[0]) >= 19 else dict(metadata_errors='replace')


class BrokenVideoError(RuntimeError):
    """A video file that cannot provide the requested frames; the message names it."""


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


def duration_of(path: str) -> float:
    """Return a video's duration in seconds as a player shows it: the stated one, else the packets'.

    The clock is that of :func:`~mmvtr.datasets.videos.video_io.read_frames`: 0 is the beginning of
    the first stream, sound included.

    Args:
        path: a video file.

    Raises:
        BrokenVideoError: no video stream, no packet with a time, or not a video file.
        FileNotFoundError: no such file.
    """
    with errors_name(path), open_video(path) as (container, stream):
        return _length(container, stream)


def pictures_span(path: str) -> tuple[float, float]:
    """Return the seconds at which a file's first picture appears and its last one ends.

    The clock and the errors are those of :func:`duration_of`; most files have pictures from 0 to
    their duration, but the sound may begin earlier or last longer.
    """
    with errors_name(path), open_video(path) as (container, stream):
        unit, start = float(stream.time_base), start_of(container)
        if start is None or stream.start_time is None:
            return 0.0, _length(container, stream)
        begin = max(0.0, stream.start_time * unit - start)
        if stream.duration and not _may_start_again(container):
            return begin, begin + stream.duration * unit
        return begin, _length(container, stream)


def _length(container: InputContainer, stream: av.VideoStream) -> float:
    start = start_of(container)
    if start is not None and _may_start_again(container):
        return _last_shown(container, stream) - start
    from_zero = any(name in container.format.name for name in FROM_ZERO)
    if container.duration and not (start and from_zero):
        return container.duration / av.time_base
    unit = float(stream.time_base)
    times = [
        (p.pts, p.pts + (p.duration or 0)) for p in container.demux(stream) if p.pts is not None
    ]
    if not times:
        raise BrokenVideoError('no packet with a time')
    begin = min(a for a, _ in times) * unit if start is None else start
    return max(b for _, b in times) * unit - begin


def _may_start_again(container: InputContainer) -> bool:
    return bool(container.format.flags & MAY_JUMP) or 'flv' in container.format.name


def _last_shown(container: InputContainer, stream: av.VideoStream) -> float:
    """Return the second at which the last picture ends on the joined clock."""
    clock, unit, last, whole = Clock(container), float(stream.time_base), 0, 0.0

    def of_stream() -> Iterator[av.Packet]:
        nonlocal whole
        for packet in container.demux():
            if packet.pts is not None and packet.time_base:
                whole = max(whole, float((packet.pts + (packet.duration or 0)) * packet.time_base))
            if packet.stream.index == stream.index:
                yield packet

    for packet in clock.joined(of_stream()):
        if packet.pts is not None and packet.size:
            last = max(last, packet.pts + (packet.duration or 0))
    return last * unit if clock.offset else max(whole, last * unit)


def start_of(container: InputContainer) -> Optional[float]:
    """Return the second at which a player begins, the earliest of all streams; or None."""
    return None if container.start_time is None else container.start_time / av.time_base
