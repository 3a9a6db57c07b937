"""How long a video file is, without decoding it."""

from __future__ import annotations

import av

from mmvtr.datasets.videos.video_io import LENIENT, BrokenVideoError


def duration_of(path: str) -> float:
    """Seconds of the first video stream: what the file states, or else what its packets say.

    Args:
        path: a video file.

    Raises:
        BrokenVideoError: no video stream, no packet with a time, or no video file.
        FileNotFoundError: no such file.
    """
    try:
        with av.open(path, **LENIENT) as container:
            streams = container.streams.video
            if not streams:
                raise BrokenVideoError(f'{path}: no video stream')
            if container.duration:
                return container.duration / av.time_base
            times = [
                (packet.pts, packet.pts + (packet.duration or 0))
                for packet in container.demux(streams[0])
                if packet.pts is not None
            ]
            if not times:
                raise BrokenVideoError(f'{path}: no packet with a time')
            begin, end = min(a for a, _ in times), max(b for _, b in times)
            return float((end - begin) * streams[0].time_base)
    except FileNotFoundError:
        raise FileNotFoundError(f'no such video: {path}') from None
    except av.error.FFmpegError as error:
        raise BrokenVideoError(f'{path}: {error.strerror or error}') from error
