"""How long a video file is, and when it has pictures, without decoding it."""

from __future__ import annotations

import av
from av.container import InputContainer

from mmvtr.datasets.videos.video_files import BrokenVideoError, errors_name, open_video, start_of

#: Formats whose header may count from zero where the timestamps do not.
FROM_ZERO = ('matroska', 'flv')


def duration_of(path: str) -> float:
    """Seconds that a player shows: what the file states, or else what its packets say.

    They are on the clock of :func:`~mmvtr.datasets.videos.video_io.read_frames`: 0 is where the
    first stream begins, the sound counted.

    Args:
        path: a video file.

    Raises:
        BrokenVideoError: no video stream, no packet with a time, or no video file.
        FileNotFoundError: no such file.
    """
    with errors_name(path), open_video(path) as (container, stream):
        return _length(container, stream)


def pictures_span(path: str) -> tuple[float, float]:
    """Seconds of a file at which its first picture appears and its last one goes.

    The clock and the errors are those of :func:`duration_of`; most files have pictures from 0 to
    there, but the sound may begin earlier or last longer.
    """
    with errors_name(path), open_video(path) as (container, stream):
        unit, start = float(stream.time_base), start_of(container)
        if start is None or stream.start_time is None:
            return 0.0, _length(container, stream)
        begin = max(0.0, stream.start_time * unit - start)
        if stream.duration:
            return begin, begin + stream.duration * unit
        return begin, _length(container, stream)


def _length(container: InputContainer, stream: av.VideoStream) -> float:
    start = start_of(container)
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
