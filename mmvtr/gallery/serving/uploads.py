"""Videos of strangers: how many at a time, and how much there may be to decode in one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Iterator

from mmvtr.datasets.videos.video_files import errors_name, open_video
from mmvtr.gallery.serving.batching import Busy

#: Pixels of a frame: 4096 x 2304.
FRAME = 4096 * 2304
#: Seconds in which a video must arrive: it holds a place of :class:`Uploads` meanwhile.
RECEIVING = 300
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
        with errors_name(path), open_video(path) as (container, stream):
            width, height = stream.codec_context.width, stream.codec_context.height
            if width * height > FRAME:
                raise TooMuchToDecode(
                    f'a frame of the video has {width} x {height} pixels; 4096 x 2304 may be '
                    'searched with: send a smaller copy'
                )
            pixels = 0
            for packet in container.demux(stream):
                pixels += width * height if packet.size else 0
                if pixels > self._pixels:
                    raise TooMuchToDecode(
                        f'the video has more than {self._pixels:,} pixels in all its frames of '
                        f'{width} x {height}: send a shorter part or a smaller copy of it'
                    )
