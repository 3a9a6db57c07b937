"""Recordings of broadcasts: joined, or with packets that no picture needs gone.

A transport stream is changed here packet by packet (ISO/IEC 13818-1, 2.4.3): 188 bytes, the number
of the stream in bytes 1 and 2, a bit where a picture begins, and a counter in the last 4 bits of
byte 3.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import av
import numpy as np

from campaign.made import RATE, Made, drawn, write

SIZE = 188
#: Number of the first stream that ffmpeg writes, that of the pictures.
PICTURES = 256
#: Seconds at which the clock of a transport stream begins anew.
WRAP = 2**33 / 90_000
BROADCAST = (('libx264', '.ts'), ('mpeg2video', '.ts'))
JOINABLE = (('libx264', '.flv'), ('flv', '.flv'), ('mpeg2video', '.mpg'))
#: Bytes of a file that a second recording behind it does not repeat.
HEADS = {'.flv': 13}
#: Seconds by which the sound of a part may last longer than its pictures: one packet of it.
SOUND = 0.05


class Stream(NamedTuple):
    """A transport stream as packets.

    Attributes:
        made: what the file shows.
        blocks: its packets.
        owner: of each block the number of its picture in the order of coding, -1 of no picture.
    """

    made: Made
    blocks: list[bytes]
    owner: list[int]

    def write(self, blocks: list[bytes], random: np.random.Generator) -> Made:
        """Put other packets into the file, in one of three with a time before each (m2ts)."""
        stamp = b'\0\0\0\0' if random.random() < 1 / 3 else b''
        self.made.path.write_bytes(b''.join(stamp + block for block in blocks))
        return self.made


def stream(path: Path, random: np.random.Generator) -> Stream:
    """Write one of 40 pictures or more, with sound or not."""
    times: list[tuple[int, bool]] = []

    def note(packets: list[av.Packet]) -> list[av.Packet]:
        times.extend((packet.pts, packet.is_keyframe) for packet in packets)
        return packets

    recipe = drawn(random, BROADCAST, sound=bool(random.random() < 0.5), change=note)
    recipe = recipe._replace(frames=recipe.frames + 20, gop=int(random.choice([4, 8, 12])))
    made = write(path, recipe)
    data = made.path.read_bytes()
    blocks = [data[i : i + SIZE] for i in range(0, len(data), SIZE)]
    owner, last = [], -1
    for block in blocks:
        last += number_of(block) == PICTURES and begins(block)
        owner.append(last if number_of(block) == PICTURES else -1)
    assert last + 1 == len(times) and {len(b) for b in blocks} == {SIZE}
    return Stream(made, blocks, owner)


def number_of(block: bytes) -> int:
    return (block[1] & 0x1F) << 8 | block[2]


def begins(block: bytes) -> bool:
    return bool(block[1] & 0x40)


# -- clocks --------------------------------------------------------------------------------------


def joined(path: Path, random: np.random.Generator) -> Made:
    """Two or three recordings in one file, each on a clock of its own."""
    recipe = drawn(random, JOINABLE, sound=bool(random.random() < 0.5))
    if recipe.suffix == '.mpg':
        recipe = recipe._replace(sound=False)
    begins_at = _clocks(recipe.suffix, int(random.integers(2, 4)), random)
    data, marks = b'', []
    for n, begin in enumerate(begins_at):
        part = recipe._replace(
            first=len(marks), frames=int(random.integers(20, 60)), late=begin, sound_late=begin
        )
        made = write(path.with_name(f'{path.name}_{n}'), part)
        data += made.path.read_bytes()[HEADS.get(recipe.suffix, 0) if n else 0 :]
        marks += made.shown
        made.path.unlink()
    whole = path.with_suffix(recipe.suffix)
    whole.write_bytes(data)
    times = None if recipe.suffix == '.mpg' else [i / RATE for i in range(len(marks))]
    made = Made(whole, marks, times)
    return made._replace(slack=SOUND) if recipe.sound else made


def _clocks(suffix: str, number: int, random: np.random.Generator) -> list[float]:
    """Where the clock of each part begins: at zero again, hours before or hours behind."""
    if suffix != '.ts':
        return [0.0] * number
    drawn_clocks = random.choice([0.0, 60.0, 3600.0, 80_000.0], number, replace=False)
    return [0.0] * number if random.random() < 0.5 else drawn_clocks.tolist()


def wrapped_clock(path: Path, random: np.random.Generator) -> Made:
    """The 33 bits of the clock are all used within the file: it goes on from zero."""
    sound = bool(random.random() < 0.5)
    begin = WRAP - float(random.uniform(0.3, 1.2))
    return write(path, drawn(random, BROADCAST, sound=sound, late=begin, sound_late=begin))


# -- packets -------------------------------------------------------------------------------------


def lost_elsewhere(path: Path, random: np.random.Generator) -> Made:
    """Packets of the sound or of the tables are gone, which no picture needs."""
    made = stream(path, random)
    others = [n for n, owner in enumerate(made.owner) if owner < 0][6:]
    gone = set(random.choice(others, min(3, len(others)), replace=False).tolist())
    return made.write([b for n, b in enumerate(made.blocks) if n not in gone], random)
