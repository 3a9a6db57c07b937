"""Videos of strangers: how many at a time, and how much there may be to decode in one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Iterator

import av

from mmvtr.datasets.videos.video_io import LENIENT, BrokenVideoError
from mmvtr.serving.batching import Busy

#: Pixels of a frame: 4096 x 2304.
FRAME = 4096 * 2304
#: Pixels of all frames: 1280 x 720 at 30 frames a second for 72 seconds.
PIXELS = 2_000_000_000


class TooMuchToDecode(ValueError):
    """A video that would take longer, or more memory, than one request may have."""


class Uploads:
    """Limits on the videos that are searched with.

    Args:
        pixels: width x height x frames of one video.
        at_once: videos that are received or decoded at a time.
    """

    def __init__(self, *, pixels: int = PIXELS, at_once: int = 4) -> None:
        self._pixels, self._at_once = pixels, at_once
        self._places = threading.Semaphore(at_once)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place for one video.

        Raises:
            Busy: all are taken.
        """
        if not self._places.acquire(blocking=False):
            raise Busy(f'{self._at_once} videos are being searched with already: try again later')
        try:
            yield
        finally:
            self._places.release()

    def check(self, path: str) -> None:
        """Refuse a video by what its headers and packets say, before a frame is decoded.

        Raises:
            BrokenVideoError: no video file.
            TooMuchToDecode: frames that are too large, or too many.
        """
        try:
            with av.open(path, **LENIENT) as container:
                sizes = {s.index: _size(s) for s in container.streams.video}
                for width, height in sizes.values():
                    if width * height > FRAME:
                        raise TooMuchToDecode(
                            f'a frame of the video has {width} x {height} pixels; 4096 x 2304 '
                            'may be searched with: send a smaller copy'
                        )
                self._count(container, sizes)
        except av.error.FFmpegError as error:
            raise BrokenVideoError(f'{path}: {error.strerror or error}') from error

    def _count(self, container: Any, sizes: dict[int, tuple[int, int]]) -> None:
        pixels = 0
        for packet in container.demux(video=tuple(range(len(sizes)))) if sizes else ():
            width, height = sizes[packet.stream.index]
            pixels += width * height if packet.size else 0
            if pixels > self._pixels:
                raise TooMuchToDecode(
                    f'the video has more than {self._pixels:,} pixels in all its frames of '
                    f'{width} x {height}: send a shorter part or a smaller copy of it'
                )


def _size(stream: Any) -> tuple[int, int]:
    context = stream.codec_context
    return (0, 0) if context is None else (context.width, context.height)
