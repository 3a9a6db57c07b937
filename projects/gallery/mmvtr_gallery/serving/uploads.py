"""Limits on uploaded videos: how many at a time, and how much to decode in each."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Iterator

from mmvtr.datasets.videos.decoding_limits import (
    DecodingLimits,
    TooMuchToDecode,
    decoding_within,
)
from mmvtr.datasets.videos.video_files import errors_name, open_video
from mmvtr.datasets.videos.video_io import decode_all
from mmvtr_gallery.serving.batching import Busy

#: Maximal pixels of a frame: 4096 x 2304.
FRAME = 4096 * 2304
#: Seconds in which a video must arrive, as it occupies a place of :class:`Uploads` meanwhile.
RECEIVING = 300
#: Maximal pixels of all frames: 1280 x 720 at 30 frames a second for 72 seconds.
PIXELS = 2_000_000_000
#: Maximal processor seconds for decoding.
SECONDS = 60.0


class Uploads:
    """Limits on uploaded query videos.

    Args:
        pixels: width x height x frames of one video.
        at_once: videos received or decoded at a time.
        seconds: processor seconds for decoding one video.
    """

    def __init__(self, *, pixels: int = PIXELS, at_once: int = 4, seconds: float = SECONDS) -> None:
        self._pixels, self._at_once = pixels, at_once
        self._limits = DecodingLimits(FRAME, pixels, seconds)
        self._places = threading.Semaphore(at_once)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the places for videos within the block.

        Raises:
            Busy: all places are taken.
        """
        if not self._places.acquire(blocking=False):
            raise Busy(f'{self._at_once} videos are being searched with already: try again later')
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Apply the decoding limits to each frame within the block, whatever headers say.

        Raises:
            TooMuchToDecode: (within) a frame is too large, or the frames are too many or take too
                long.
        """
        with decoding_within(self._limits):
            yield

    def check_all(self, path: str) -> None:
        """Raise unless a video to be stored passes :meth:`check` and decodes within limits.

        Raises:
            BrokenVideoError: no video file, or it cannot be decoded to its end.
            TooMuchToDecode: see :meth:`check` and :meth:`decoding`.
        """
        self.check(path)
        with self.decoding():
            decode_all(path)

    def check(self, path: str) -> None:
        """Raise if a video's headers and packets exceed the limits, before a frame is decoded.

        Raises:
            BrokenVideoError: no video file.
            TooMuchToDecode: the frames are too large, or too many.
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
