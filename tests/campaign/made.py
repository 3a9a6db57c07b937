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
SLACK = 0.011
BLOCK = 16
WIDTH, HEIGHT = marked.COLUMNS * BLOCK, marked.ROWS * BLOCK
#: Of pixels, where an encoder does not take yuv420p.
PIXELS = dict(mjpeg='yuvj420p', cinepak='rgb24', svq1='yuv410p')
#: Codecs and containers whose pictures have times of their own, and may begin when they like.
TIMED = (
    ('libx264', '.mp4'), ('mpeg4', '.mov'), ('libx264', '.mkv'), ('libx264', '.ts'),
    ('mpeg2video', '.ts'), ('libx264', '.flv'), ('mpeg4', '.nut'), ('wmv2', '.wmv'),
)  # fmt: skip


class Made(NamedTuple):
    """A file and what is right.

    Attributes:
        path: the file.
        shown: what its frames show, in order.
        times: seconds at which they are shown, None where the file does not say.
        size: (height, width) of what is shown, None where it is not checked.
        spoiled: places in ``shown`` of frames that lack data, or need one that does.
        gone: those of which the file holds nothing at all.
        slack: seconds by which times may be off: containers round them to a millisecond, some to
            ten.
    """

    path: Path
    shown: list[Mark]
    times: Optional[list[float]]
    size: Optional[tuple[int, int]] = None
    spoiled: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    slack: float = SLACK


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
        first: number that the first frame shows.
        ratio: width of a pixel by its height; the pictures are stored that much narrower.
        said: what the coded pictures say of the ratio, None = the ratio.
        block: pixels of a side of a block.
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
    first: int = 0
    ratio: Fraction = Fraction(1)
    said: Optional[Fraction] = None
    block: int = BLOCK


def drawn(random: np.random.Generator, choices: tuple, **changes: Any) -> Recipe:
    """Draw a recipe for one of the ``choices`` (codec, suffix); ``changes`` stand as they are."""
    codec, suffix = choices[random.integers(len(choices))]
    recipe = Recipe(
        codec, suffix, frames=int(random.integers(20, 60)), gop=int(random.choice([4, 12, 100]))
    )
    if codec == 'libx264' and suffix != '.avi':
        recipe = recipe._replace(reorder=int(random.integers(0, 3)))
    return recipe._replace(**changes)


def write(path: Path, recipe: Recipe) -> Made:
    """Write a file of numbered pictures.

    The times of ``Made`` are right where ``change`` leaves packets and times as they are.
    """
    path = path.with_suffix(recipe.suffix)
    with av.open(str(path), 'w', options=recipe.muxing) as file:
        if recipe.title:
            file.metadata['title'] = recipe.title
        _, pictures = coded(file, recipe)
        sound = _sound(file, recipe) if recipe.sound else []
        mux(file, [*recipe.change(pictures), *sound])
    return stated(path, recipe)


def coded(file: Any, recipe: Recipe) -> tuple[av.VideoStream, list[av.Packet]]:
    """Add a track of pictures to a file; returns it and its packets, which are still to write."""
    unit = Fraction(1, 90_000 if recipe.suffix == '.ts' else 1000 * RATE)
    ticks = [round((recipe.late + time) / unit) for time in _relative(recipe)]
    stream = file.add_stream(recipe.codec, rate=RATE, options=_options(recipe))
    stream.width, stream.height = stored_width(recipe), marked.ROWS * recipe.block
    stream.pix_fmt = PIXELS.get(recipe.codec, 'yuv420p')
    stream.codec_context.gop_size = recipe.gop
    if recipe.ratio != 1:
        stream.codec_context.sample_aspect_ratio = recipe.said or recipe.ratio
    packets = []
    for i, _ in enumerate(ticks):
        image = marked.draw(recipe.first + i, recipe.block)
        columns = np.arange(stream.width) * image.shape[1] // stream.width
        frame = av.VideoFrame.from_ndarray(image[:, columns], format='rgb24')
        frame.pts, frame.time_base = i, Fraction(1, RATE)
        packets += stream.encode(frame)
    packets += stream.encode()
    _retime(packets, ticks, unit)
    return stream, packets


def mux(file: Any, packets: list[av.Packet]) -> None:
    """Write the packets of all tracks, by their times of decoding."""
    for packet in sorted(packets, key=_when):
        file.mux(packet)


def stated(path: Path, recipe: Recipe) -> Made:
    """What a file of a recipe shows if nothing of it was changed."""
    begin = min(recipe.late, recipe.sound_late) if recipe.sound else recipe.late
    times = [recipe.late + time - begin for time in _relative(recipe)]
    return Made(path, [Mark(recipe.first + i) for i in range(recipe.frames)], times)


def stored_width(recipe: Recipe) -> int:
    """Pixels of a row, an even number."""
    return 2 * round(marked.COLUMNS * recipe.block / recipe.ratio / 2)


def _relative(recipe: Recipe) -> list[float]:
    return recipe.times or [i / RATE for i in range(recipe.frames)]


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
