"""Videos of pictures with known content, well or badly made, and what a player shows of each.

What must be read is known from how a file was made, never from reading it.  Times are those of a
player's clock, which begins where the first of picture and sound begins.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import av
import numpy as np

from campaign import marked
from campaign.marked import Mark

RATE = 25
BLOCK = 16
WIDTH, HEIGHT = marked.COLUMNS * BLOCK, marked.ROWS * BLOCK
#: Of pixels, where an encoder does not take yuv420p.
PIXELS = dict(mjpeg='yuvj420p', cinepak='rgb24', svq1='yuv410p')


class Made(NamedTuple):
    """A file and what is right.

    Attributes:
        path: the file.
        shown: what its frames show, in order.
        times: seconds at which they are shown, None where the file does not say.
    """

    path: Path
    shown: list[Mark]
    times: Optional[list[float]]


class Recipe(NamedTuple):
    """How a file is written.

    Attributes:
        codec, suffix: of the picture, and of the file's name, which decides on the container.
        frames: how many are drawn.
        gop: distance of key frames.
        reorder: B-frames in a row.
        sound: whether there is any, as long as the pictures.
        late, sound_late: seconds at which picture and sound begin.
        times: of the frames in seconds after ``late``, None = 25 a second.
        muxing: options of the writer.
        change: of the coded packets, before they are written.
    """

    codec: str
    suffix: str
    frames: int = 40
    gop: int = 12
    reorder: int = 0
    sound: bool = False
    late: float = 0.0
    sound_late: float = 0.0
    times: Optional[list[float]] = None
    muxing: dict[str, str] = {}
    change: Callable[[list[av.Packet]], list[av.Packet]] = list
    title: str = ''


def write(path: Path, recipe: Recipe) -> Made:
    """Write a file of numbered pictures.

    The times of ``Made`` are right where ``change`` leaves packets and times as they are.
    """
    path = path.with_suffix(recipe.suffix)
    unit = Fraction(1, 90_000 if recipe.suffix == '.ts' else 1000 * RATE)
    relative = recipe.times or [i / RATE for i in range(recipe.frames)]
    ticks = [round((recipe.late + time) / unit) for time in relative]
    with av.open(str(path), 'w', options=recipe.muxing) as file:
        if recipe.title:
            file.metadata['title'] = recipe.title
        stream = file.add_stream(recipe.codec, rate=RATE, options=_options(recipe))
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = PIXELS.get(recipe.codec, 'yuv420p')
        stream.codec_context.gop_size = recipe.gop
        sound = _sound(file, recipe) if recipe.sound else []
        packets = []
        for i, _ in enumerate(ticks):
            frame = av.VideoFrame.from_ndarray(marked.draw(i, BLOCK), format='rgb24')
            frame.pts, frame.time_base = i, Fraction(1, RATE)
            packets += stream.encode(frame)
        packets += stream.encode()
        _retime(packets, ticks, unit)
        packets = recipe.change(packets)
        for packet in sorted([*packets, *sound], key=_when):
            file.mux(packet)
    begin = min(recipe.late, recipe.sound_late) if recipe.sound else recipe.late
    times = [recipe.late + time - begin for time in relative]
    return Made(path, [Mark(i) for i in range(recipe.frames)], times)


def _options(recipe: Recipe) -> dict[str, str]:
    options = {'g': str(recipe.gop), 'b': '2000000'}
    if recipe.codec == 'libx264':
        options.update(bf=str(recipe.reorder), crf='20', sc_threshold='0', preset='veryfast')
    elif recipe.reorder:
        options['bf'] = str(recipe.reorder)
    if recipe.codec.startswith('libvpx'):
        options.update(deadline='realtime', **{'cpu-used': '8', 'lag-in-frames': '0'})
    return options


def _retime(packets: list[av.Packet], ticks: list[int], unit: Fraction) -> None:
    """From frame numbers to times; the time of decoding moves by as much as that of showing."""
    step = round(Fraction(1, RATE) / unit)
    for packet in packets:
        number, early = packet.pts, packet.pts - packet.dts
        before = ticks[number - early] if number >= early else ticks[0] - step * (early - number)
        packet.time_base = unit
        packet.pts, packet.dts, packet.duration = ticks[number], before, step


def _when(packet: av.Packet) -> float:
    return float(packet.dts * packet.time_base) if packet.dts is not None else 0.0


def _sound(file: Any, recipe: Recipe) -> list[av.Packet]:
    """Silence in a coding without delay; its first packet is at ``sound_late``."""
    coder = {'.ts': 'mp2', '.flv': 'adpcm_swf', '.mp4': 'mp2'}.get(recipe.suffix, 'pcm_s16le')
    rate = 44100 if recipe.suffix == '.flv' else 48000
    stream = file.add_stream(coder, rate=rate, layout='mono')
    stream.codec_context.open()
    size = stream.codec_context.frame_size or 1024
    packets = []
    for i in range(int(recipe.frames / RATE * rate / size) + 1):
        block = np.zeros((1, size), np.int16)
        frame = av.AudioFrame.from_ndarray(block, format='s16', layout='mono')
        frame.sample_rate, frame.pts, frame.time_base = rate, i * size, Fraction(1, rate)
        packets += stream.encode(frame)
    shift = round(recipe.sound_late * rate)
    for i, packet in enumerate(packets):
        packet.pts = packet.dts = i * size + shift
        packet.time_base = Fraction(1, rate)
    return packets
