"""Decoded pictures as a player shows them: RGB, upright, with square pixels."""

from __future__ import annotations

import av
import numpy as np
from av.sidedata.sidedata import Type
from av.video.reformatter import VideoReformatter

#: Plausible width-to-height ratios of a pixel; beyond these pixels are taken as square.
RATIOS = 1 / 8, 8.0


class ShownPictures:
    """Converter of a stream's pictures to upright RGB with square pixels.

    One converter per file: ``frame.to_ndarray`` would set up a new one for each frame, half the
    time of reading a small clip; in PyAV 19 it shares one per thread, whose pool of threads is gone
    in a forked data worker that goes on using it.  This one has no threads: data workers provide
    the parallelism, and a worker may collect the garbage of the process that it was forked from.

    Args:
        stream: provides the pixel aspect ratio of the container and the codec.
    """

    def __init__(self, stream: av.VideoStream) -> None:
        ratio = stream.sample_aspect_ratio
        self._ratio = ratio if ratio and RATIOS[0] <= ratio <= RATIOS[1] else 1
        self._converter = VideoReformatter()

    def width(self, columns: int) -> int:
        """Return the width of a picture of ``columns`` columns after its pixels are made square."""
        return max(1, round(columns * self._ratio))

    def rgb(self, frame: av.VideoFrame) -> np.ndarray:
        """Return a picture as uint8 [H, W, 3], upright."""
        width = self.width(frame.width)
        converted = self._converter.reformat(frame, width=width, format='rgb24', threads=1)
        return upright(converted.to_ndarray(), frame)


def upright(image: np.ndarray, frame: av.VideoFrame) -> np.ndarray:
    """Return a picture rotated and mirrored by its display matrix, as in players.

    The matrix [[a, b], [c, d]] sends a point (x, y) of the picture to (a x + c y, b x + d y) of the
    screen, so its signs are those of the axes, swapped if b and c are the larger entries (all eight
    orientations; other angles are rounded to the nearest of them).

    Args:
        image: [H, W, 3], as decoded.
        frame: the decoded frame of the picture.

    Returns:
        [H, W, 3] or [W, H, 3], contiguous.
    """
    matrix = frame.side_data.get(Type.DISPLAYMATRIX)
    if matrix is not None:
        a, b, _, c, d, *_ = np.frombuffer(bytes(matrix), dtype='<i4').astype(float)
        swapped = abs(b) + abs(c) > abs(a) + abs(d)
        if swapped:
            image, a, d = image.swapaxes(0, 1), c, b
        image = image[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]
    return np.ascontiguousarray(image)
