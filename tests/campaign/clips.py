"""Small videos of seeded content in many containers, and which of them say where they end."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, Optional

import av
import numpy as np


class Container(NamedTuple):
    """How a kind of file is made.

    Attributes:
        suffix: of its name.
        video, audio: encoders of ffmpeg; no sound without the second.
        muxing: options of the writer.
        unit: bytes that the file is a multiple of, if that is all by which a cut can be told;
            0 = nothing tells; None = the file says how long it is.
    """

    suffix: str
    video: str
    audio: Optional[str] = None
    muxing: dict[str, str] = {}
    unit: Optional[int] = None


CONTAINERS = {
    'mp4': Container('.mp4', 'libx264', 'aac'),
    'mp4, index first': Container('.mp4', 'libx264', muxing={'movflags': '+faststart'}),
    'mp4, indexed fragments': Container('.mp4', 'libx264', muxing={'movflags': 'dash+global_sidx'}),
    'mov': Container('.mov', 'mpeg4'),
    '3gp': Container('.3gp', 'mpeg4'),
    'avi, h264': Container('.avi', 'libx264', 'libmp3lame'),
    'avi, mpeg4': Container('.avi', 'mpeg4'),
    'avi, mjpeg': Container('.avi', 'mjpeg'),
    'mkv': Container('.mkv', 'libx264', 'aac'),
    'webm': Container('.webm', 'libvpx', 'libopus'),
    'webm, vp9': Container('.webm', 'libvpx-vp9'),
    'flv': Container('.flv', 'libx264', 'libmp3lame'),
    'wmv': Container('.wmv', 'wmv2'),
    'ts': Container('.ts', 'libx264', 'mp2', unit=188),
    'ts, mpeg2': Container('.ts', 'mpeg2video', unit=188),
    'mp4, fragments': Container(
        '.mp4', 'libx264', muxing={'movflags': 'frag_keyframe+empty_moov'}, unit=0
    ),
    'webm, live': Container('.webm', 'libvpx', muxing={'live': '1'}, unit=0),
    'flv, no metadata': Container('.flv', 'flv', muxing={'flvflags': 'no_metadata'}, unit=0),
    'mpg': Container('.mpg', 'mpeg2video', 'mp2', unit=0),
    'nut': Container('.nut', 'mpeg4', unit=0),
}

#: Those that do not say how long a film is, or not in time: fragments follow without an end, and
#: writers of wmv count a late begin twice.
ENDLESS = {kind for kind, container in CONTAINERS.items() if container.unit is not None} | {
    'mp4, indexed fragments',
    'wmv',
}
RATE = 25


def tells(kind: str, cut: int) -> bool:
    """Whether a file of ``cut`` bytes says that it was longer.

    A file of fragments that is cut inside of one tells, too, but only some other cuts are counted
    as those that nothing tells: where the fragments lie is not known here.
    """
    unit = CONTAINERS[kind].unit
    return unit is None or (unit > 0 and cut % unit > 0)


def make_clip(path: Path, kind: str, random: np.random.Generator) -> None:
    """Write a clip of 2 to 40 frames: moving noise on grey, sometimes with sound.

    Frame rate, sizes, key frames and reordering (B-frames) are drawn.
    """
    container = CONTAINERS[kind]
    frames, keyint = int(random.integers(2, 41)), int(random.choice([1, 4, 12]))
    height, width = (int(16 * random.integers(2, 7)) for _ in range(2))
    with av.open(str(path), 'w', options=container.muxing) as file:
        options = {'g': str(keyint)}
        if container.video == 'libx264':
            options['bf'] = str(random.integers(0, 3))
        stream = file.add_stream(container.video, rate=RATE, options=options)
        stream.height, stream.width = height, width
        stream.pix_fmt = 'yuvj420p' if container.video == 'mjpeg' else 'yuv420p'
        sound = None
        if container.audio and random.random() < 0.5:
            sound = file.add_stream(container.audio, rate=48000, layout='mono')
        for i in range(frames):
            image = np.full((height, width, 3), 20 + 5 * i, dtype=np.uint8)
            top = i % (height - 15)
            image[top : top + 16] = random.integers(0, 255, (16, width, 3))
            frame = av.VideoFrame.from_ndarray(image, format='rgb24')
            frame.pts, frame.time_base = i, Fraction(1, RATE)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
        if sound is not None:
            _add_sound(file, sound, frames, random)


def _add_sound(
    file: av.container.OutputContainer,
    stream: av.AudioStream,
    frames: int,
    random: np.random.Generator,
) -> None:
    """As long as ``frames`` video frames."""
    coder = stream.codec_context
    fifo = av.AudioResampler(coder.format.name, 'mono', 48000, coder.frame_size or 1024)
    noise = random.normal(0, 0.1, (1, frames * 48000 // RATE)).astype(np.float32)
    block = av.AudioFrame.from_ndarray(noise, format='fltp', layout='mono')
    block.sample_rate, block.pts = 48000, 0
    for part in fifo.resample(block) + fifo.resample(None):
        file.mux(stream.encode(part))
    file.mux(stream.encode())
