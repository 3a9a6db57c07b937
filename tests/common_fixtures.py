"""Fixtures that many tests share: the reference data, and tiny videos rendered on the spot."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Callable, ContextManager, Iterator, Optional, Sequence

import av
import numpy as np
import pytest

import read_once  # noqa: F401 - makes configs cheap
from installation import Installation, install


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools set LOCAL_RANK where they read their arguments; trainers would look for others."""
    for name in ('LOCAL_RANK', 'RANK', 'WORLD_SIZE'):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope='session')
def shared() -> Path:
    """The folder of golden files and published annotations; skips where it is absent."""
    default = Path(__file__).parents[2] / 'shared'
    folder = Path(os.environ.get('MMVTR_SHARED', default))
    if not folder.is_dir():
        pytest.skip(f'no reference data at {folder} (set MMVTR_SHARED)')
    return folder


@pytest.fixture(scope='session')
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The project built as a wheel and installed where no checkout is in sight."""
    return install(tmp_path_factory.mktemp('installed'))


@pytest.fixture(scope='session')
def full_disk() -> Callable[[int], ContextManager[None]]:
    """``with full_disk(most):`` no file can be written that has more bytes."""
    return limited


@contextmanager
def limited(most: int) -> Iterator[None]:
    """A limit on the size of files, which is what a full disk is to who writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture(scope='session')
def write_video() -> Callable[..., Path]:
    """``write_video(path, greys, ...)``, see :func:`render`."""
    return render


@pytest.fixture(scope='session')
def write_late() -> Callable[..., str]:
    """``write_late(path, late=2.0)``, see :func:`render_late`."""
    return render_late


def render_late(path: Path, *, late: float, shift: float = 0.0, sound: float = 6.0) -> str:
    """Sound from ``shift`` on, and four seconds of pictures ``late`` s after it, a grey each."""
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('libx264', rate=10, options={'g': '7', 'bf': '2'})
        stream.height, stream.width, stream.pix_fmt = 32, 48, 'yuv420p'
        audio = container.add_stream('mp2' if path.suffix == '.ts' else 'aac', rate=44100)
        packets = []
        for i in range(40):
            image = np.full((32, 48, 3), 30 + 50 * (i // 10), dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format='rgb24')
            frame.pts, frame.time_base = round(1000 * (i / 10 + late + shift)), Fraction(1, 1000)
            packets += stream.encode(frame)
        packets += stream.encode()
        for i in range(int(sound * 44100) // 1152):
            silence = np.zeros((1, 1152), dtype=np.int16)
            frame = av.AudioFrame.from_ndarray(silence, format='s16', layout='mono')
            frame.rate, frame.time_base = 44100, Fraction(1, 44100)
            frame.pts = i * 1152 + round(shift * 44100)
            packets += audio.encode(frame)
        packets += audio.encode()
        for packet in sorted(packets, key=lambda p: float(p.dts * p.time_base)):
            container.mux(packet)
    return str(path)


def render(
    path: Path,
    greys: Sequence[int],
    *,
    times: Optional[Sequence[float]] = None,
    size: tuple[int, int] = (32, 48),
    codec: str = 'libx264',
    keyint: int = 5,
) -> Path:
    """Write a video whose frame i is all of grey level ``greys[i]``.

    Args:
        path: the file; its suffix chooses the container.
        greys: levels 0..255, one a frame.
        times: seconds of each frame to the millisecond; default 10 frames a second.
        size: height and width in pixels, even.
        codec: an encoder of ffmpeg.
        keyint: frames from one key frame to the next.

    Returns:
        ``path``.
    """
    times = [i / 10 for i in range(len(greys))] if times is None else times
    height, width = size
    with av.open(str(path), 'w') as container:
        stream = container.add_stream(codec, rate=10, options={'g': str(keyint)})
        stream.height, stream.width, stream.pix_fmt = height, width, 'yuv420p'
        stream.codec_context.time_base = Fraction(1, 1000)
        for grey, time in zip(greys, times):
            image = np.full((height, width, 3), grey, dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format='rgb24')
            frame.pts, frame.time_base = round(time * 1000), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path
