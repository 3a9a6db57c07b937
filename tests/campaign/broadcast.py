"""Recordings of broadcasts: joined, with packets that stand twice, are gone or are counted anew.

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
JOINABLE = (*BROADCAST, ('libx264', '.flv'), ('flv', '.flv'), ('mpeg2video', '.mpg'))
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
        order: of each coded picture its place among those shown.
        keys: the coded pictures that need no other.
    """

    made: Made
    blocks: list[bytes]
    owner: list[int]
    order: list[int]
    keys: list[int]

    def write(self, blocks: list[bytes], random: np.random.Generator) -> Made:
        """Put other packets into the file, in one of three with a time before each (m2ts)."""
        stamp = b'\0\0\0\0' if random.random() < 1 / 3 else b''
        self.made.path.write_bytes(b''.join(stamp + block for block in blocks))
        return self.made

    def spoiled_by(self, coded: set[int]) -> frozenset[int]:
        """Places of the frames that need one of these coded pictures."""
        first = min(coded)
        found = set()
        for n in range(first, len(self.order)):
            bad = n in coded or (n not in self.keys and bool(found) and n - 1 in found)
            found |= {n} if bad else set()
        return frozenset(self.order[n] for n in found)


def stream(path: Path, random: np.random.Generator) -> Stream:
    """Write one of 40 pictures or more, with sound or not."""
    times: list[tuple[int, bool]] = []

    def note(packets: list[av.Packet]) -> list[av.Packet]:
        times.extend((packet.pts, packet.is_keyframe) for packet in packets)
        return packets

    recipe = drawn(random, BROADCAST, sound=bool(random.random() < 0.5), change=note)
    recipe = recipe._replace(frames=recipe.frames + 20, gop=int(random.choice([4, 8, 12])))
    made = write(path, recipe)
    shown = sorted(pts for pts, _ in times)
    order = [shown.index(pts) for pts, _ in times]
    data = made.path.read_bytes()
    blocks = [data[i : i + SIZE] for i in range(0, len(data), SIZE)]
    owner, last = [], -1
    for block in blocks:
        last += number_of(block) == PICTURES and begins(block)
        owner.append(last if number_of(block) == PICTURES else -1)
    assert last + 1 == len(times) and {len(b) for b in blocks} == {SIZE}
    return Stream(made, blocks, owner, order, [n for n, (_, key) in enumerate(times) if key])


def number_of(block: bytes) -> int:
    return (block[1] & 0x1F) << 8 | block[2]


def begins(block: bytes) -> bool:
    return bool(block[1] & 0x40)


def counted(block: bytes, by: int) -> bytes:
    """With a counter that is ahead by so many."""
    return block[:3] + bytes([block[3] & 0xF0 | (block[3] + by) & 0x0F]) + block[4:]


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


def doubled_packets(path: Path, random: np.random.Generator) -> Made:
    """Some packets stand twice, one behind the other or behind one of another stream."""
    made = stream(path, random)
    blocks = []
    number = int(random.integers(1, 7))
    chosen = set(random.choice(len(made.blocks), number, replace=False).tolist())
    waiting: list[bytes] = []
    for n, block in enumerate(made.blocks):
        if waiting and number_of(block) == number_of(waiting[0]):
            blocks.append(waiting.pop())
        blocks.append(block)
        if waiting:
            blocks.append(waiting.pop())
        if n in chosen:
            waiting = [block]
            if random.random() < 0.5:
                blocks.append(waiting.pop())
    return made.write(blocks + waiting, random)


def counter_anew(path: Path, random: np.random.Generator) -> Made:
    """The counter of the pictures goes on with another number before some of them."""
    made, blocks, ahead = stream(path, random), [], 0
    places = set(random.choice(np.arange(1, len(made.order)), 3, replace=False).tolist())
    for block, owner in zip(made.blocks, made.owner):
        if owner in places and begins(block):
            ahead += int(random.integers(1, 15))
        blocks.append(counted(block, ahead) if owner >= 0 else block)
    return made.write(blocks, random)


def lost_packets(path: Path, random: np.random.Generator) -> Made:
    """Packets of the pictures are gone, one or many in a row, whole pictures among them."""
    made = stream(path, random)
    own = [n for n, owner in enumerate(made.owner) if owner >= 1]
    first = int(random.integers(0, len(own) - 1))
    gone = set(own[first : first + int(random.choice([1, 1, 2, 5, 9, 20]))])
    coded = {made.owner[n] for n in gone}
    whole = coded - {owner for n, owner in enumerate(made.owner) if n not in gone}
    # What is left of a picture without its beginning goes to the one before.
    begun = {made.owner[n] for n in gone if begins(made.blocks[n])} - whole
    coded |= {max({*range(n)} - whole) for n in begun}
    blocks = [block for n, block in enumerate(made.blocks) if n not in gone]
    spoiled, gone = made.spoiled_by(coded), frozenset(made.order[n] for n in whole)
    return made.write(blocks, random)._replace(spoiled=spoiled, gone=gone)


def lost_elsewhere(path: Path, random: np.random.Generator) -> Made:
    """Packets of the sound or of the tables are gone, which no picture needs."""
    made = stream(path, random)
    others = [n for n, owner in enumerate(made.owner) if owner < 0][6:]
    gone = set(random.choice(others, min(3, len(others)), replace=False).tolist())
    return made.write([b for n, b in enumerate(made.blocks) if n not in gone], random)
