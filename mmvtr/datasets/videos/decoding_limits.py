"""Limits of decoding a video: pixels of a picture, pixels of all pictures, and time."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Iterable, Iterator, NamedTuple, Optional

import av

#: Maximum pixels of a picture, 16,384 x 8,192: more would take half a gigabyte as RGB.
MAX_PICTURE = 2**27


class TooMuchToDecode(ValueError):
    """Raised for a video that exceeds the allowed time or memory."""


class DecodingLimits(NamedTuple):
    """Decoding limits of one file.

    Attributes:
        picture: maximum pixels of a picture.
        pixels: maximum pixels of all decoded pictures.
        seconds: maximum processor time.
    """

    picture: int
    pixels: int
    seconds: float


_LIMITS: ContextVar[Optional[DecodingLimits]] = ContextVar('decoding_limits', default=None)


@contextmanager
def decoding_within(limits: DecodingLimits) -> Iterator[None]:
    """Decode videos within limits, in this thread.

    Raises:
        TooMuchToDecode: (when pictures are read) a picture, or all pictures together, exceed them.
    """
    token = _LIMITS.set(limits)
    try:
        yield
    finally:
        _LIMITS.reset(token)


def limit_pictures(stream: av.VideoStream) -> None:
    """Make the decoder refuse larger pictures before it allocates memory."""
    limits = _LIMITS.get()
    largest = MAX_PICTURE if limits is None else min(limits.picture, MAX_PICTURE)
    stream.codec_context.options = {**stream.codec_context.options, 'max_pixels': str(largest)}


def decoded(packets: Iterable[av.Packet]) -> Iterator[av.VideoFrame]:
    """Yield the pictures decoded from packets within the limits of this thread.

    Raises:
        TooMuchToDecode: a picture is too large, or all together are too many or take too long.
        av.error.FFmpegError: that of the decoder.
    """
    limits = _LIMITS.get()
    if limits is None:
        for packet in packets:
            yield from packet.decode()
        return
    pixels, began = 0, time.thread_time()
    for packet in packets:
        try:
            frames = packet.decode()
        except av.error.ArgumentError:  # the decoders' error for a size beyond max_pixels
            raise TooMuchToDecode(_picture('a picture', limits)) from None
        for frame in frames:
            pixels += frame.width * frame.height
            if frame.width * frame.height > limits.picture:
                size = f'a picture, {frame.width} x {frame.height},'
                raise TooMuchToDecode(_picture(size, limits))
            if pixels > limits.pixels:
                raise TooMuchToDecode(
                    f'its pictures have more than {limits.pixels:,} pixels: send a shorter part '
                    'or a smaller copy'
                )
            yield frame
        if time.thread_time() - began > limits.seconds:
            raise TooMuchToDecode(
                f'it takes more than {limits.seconds:g} s to decode: send a shorter part or a '
                'smaller copy'
            )


def _picture(what: str, limits: DecodingLimits) -> str:
    return f'{what} has more than {limits.picture:,} pixels, or no size: send a smaller copy'
