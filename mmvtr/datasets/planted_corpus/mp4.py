"""Writing RGB frames as an H.264 file."""

from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np


def write_mp4(path: Path, images: np.ndarray, fps: int) -> None:
    """Encode a clip with one thread, so that the same images give the same file.

    Args:
        path: of the file to write.
        images: uint8 [F, H, W, 3] RGB, H and W even.
        fps: frames per second.
    """
    with av.open(f'file:{path}', 'w') as container:  # a name may have a colon
        options = dict(preset='veryfast', crf='28', bf='0')
        stream = container.add_stream('libx264', rate=fps, options=options)
        stream.height, stream.width = images.shape[1:3]
        stream.pix_fmt = 'yuv420p'
        stream.codec_context.thread_count = 1
        for image in images:
            yuv = cv2.cvtColor(image, cv2.COLOR_RGB2YUV_I420)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(yuv, format='yuv420p')))
        container.mux(stream.encode())
