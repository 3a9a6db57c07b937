"""Videos whose pixels are no squares, and files of several tracks of pictures."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import Optional

import av
import numpy as np
from av.stream import Disposition

from campaign import boxes, marked
from campaign.made import (
    HEIGHT,
    RATE,
    WIDTH,
    Made,
    Recipe,
    coded,
    drawn,
    mux,
    stated,
    stored_width,
    write,
)  # fmt: skip
from campaign.marked import MATRICES, Mark

#: Codecs and containers that say how wide a pixel is.
RATIOED = (
    ('libx264', '.mp4'), ('mpeg4', '.mp4'), ('libx264', '.mov'), ('libx264', '.mkv'),
    ('mpeg4', '.mkv'), ('libx264', '.ts'), ('libx264', '.flv'), ('mpeg4', '.avi'),
    ('mpeg4', '.nut'),
)  # fmt: skip
BOXED = (('libx264', '.mp4'), ('mpeg4', '.mp4'), ('libx264', '.mov'))
#: Those of television, of anamorphic films, and the extremes.
RATIOS = [Fraction(text) for text in '4/3 8/9 16/11 10/11 12/11 64/45 32/27 2 1/2 3 1/3'.split()]
#: Of those that mark one track as the default.
MARKED = (('libx264', '.mp4'), ('libx264', '.mkv'), ('mpeg4', '.mov'), ('libvpx-vp9', '.webm'))
#: Numbers by which the pictures of two tracks are apart.
APART = 300


def wide_pixels(path: Path, random: np.random.Generator) -> Made:
    """Pixels that are wider or narrower than they are high."""
    return _wide(path, drawn(random, RATIOED, ratio=RATIOS[random.integers(len(RATIOS))]))


def wide_turned(path: Path, random: np.random.Generator) -> Made:
    """Such pixels in a picture that is turned or mirrored besides."""
    made = _wide(path, drawn(random, BOXED, ratio=RATIOS[random.integers(len(RATIOS))]))
    name = str(random.choice(list(MATRICES)))
    matrix = MATRICES[name]
    data = boxes.turned(made.path.read_bytes(), matrix, WIDTH, HEIGHT)
    made.path.write_bytes(data)
    size = made.size if matrix[0] else made.size[::-1]
    return made._replace(shown=[Mark(mark.number, name) for mark in made.shown], size=size)


def ratio_of_container(path: Path, random: np.random.Generator) -> Made:
    """The container says another ratio than the coded pictures, and is right."""
    right, wrong = (RATIOS[i] for i in random.choice(len(RATIOS), 2, replace=False))
    made = _wide(path, drawn(random, BOXED, ratio=right, said=wrong))
    data, old = made.path.read_bytes(), _pasp(wrong)
    if data.count(old) != 1:
        raise ValueError(f'{made.path}: {data.count(old)} boxes pasp of {wrong}')
    made.path.write_bytes(data.replace(old, _pasp(right)))
    return made


def _pasp(ratio: Fraction) -> bytes:
    return b'pasp' + struct.pack('>II', ratio.numerator, ratio.denominator)


def _wide(path: Path, recipe: Recipe) -> Made:
    size = HEIGHT, round(stored_width(recipe) * recipe.ratio)
    return write(path, recipe)._replace(size=size)


def default_track(path: Path, random: np.random.Generator) -> Made:
    """Two or three tracks of pictures, any of which is the default, the largest or not."""
    codec, suffix = MARKED[random.integers(len(MARKED))]
    number = int(random.integers(2, 4))
    return _tracks(path, random, (codec, suffix), number, int(random.integers(number)))


def no_default_track(path: Path, random: np.random.Generator) -> Made:
    """Two or three tracks, none of which is marked: the one of the largest pictures is shown."""
    choices = (('libx264', '.ts'), ('mpeg2video', '.ts'), ('libx264', '.mkv'))
    return _tracks(path, random, choices[random.integers(3)], int(random.integers(2, 4)), None)


def _tracks(
    path: Path,
    random: np.random.Generator,
    how: tuple[str, str],
    number: int,
    default: Optional[int],
) -> Made:
    sizes = random.choice([8, 16, 24, 32], number, replace=False).tolist()
    recipes = [drawn(random, (how,), block=int(sizes[n]), first=APART * n) for n in range(number)]
    path = path.with_suffix(how[1])
    with av.open(str(path), 'w') as file:
        packets = []
        for n, recipe in enumerate(recipes):
            stream, own = coded(file, recipe)
            stream.disposition = Disposition.default if n == default else Disposition(0)
            packets += own
        mux(file, packets)
    shown = default if default is not None else int(np.argmax(sizes))
    size = (marked.ROWS * sizes[shown], marked.COLUMNS * sizes[shown])
    return stated(path, recipes[shown])._replace(size=size)


def cover(path: Path, random: np.random.Generator) -> Made:
    """A still picture beside the film, larger than it, before or behind it in the file."""
    recipe = drawn(random, (('libx264', '.mp4'), ('mpeg4', '.mp4')))
    path, before = path.with_suffix(recipe.suffix), bool(random.random() < 0.5)
    with av.open(str(path), 'w') as file:
        packets = [] if before else coded(file, recipe)[1]
        still = file.add_stream('png', rate=RATE)
        still.width, still.height, still.pix_fmt = 4 * WIDTH, 4 * HEIGHT, 'rgb24'
        still.disposition = Disposition.attached_pic
        frame = av.VideoFrame.from_ndarray(marked.draw(1000, 64), format='rgb24')
        pictures = [*still.encode(frame), *still.encode()]
        packets = coded(file, recipe)[1] if before else packets
        mux(file, [*pictures, *packets])
    return stated(path, recipe)._replace(size=(HEIGHT, WIDTH))
