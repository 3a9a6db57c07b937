"""The ways in which videos are made here: well, as most are, and badly, as many are all the same.

Each is a function of a path (without suffix) and a generator, and returns what it made and what
is right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import av
import numpy as np

from campaign import boxes, broadcast, shapes
from campaign.made import HEIGHT, RATE, TIMED, WIDTH, Made, Recipe, drawn, write
from campaign.marked import MATRICES, Mark
from campaign.packed import pack

Kind = Callable[[Path, np.random.Generator], Made]

#: Codecs and containers of files without a fault.
PLAIN = (
    ('libx264', '.mp4'), ('mpeg4', '.mp4'), ('libx264', '.mov'), ('h263', '.3gp'),
    ('libx264', '.mkv'), ('mpeg4', '.mkv'), ('libvpx', '.webm'), ('libvpx-vp9', '.webm'),
    ('mpeg2video', '.ts'), ('libx264', '.ts'), ('libx264', '.flv'), ('flv', '.flv'),
    ('mpeg4', '.avi'), ('mjpeg', '.avi'), ('cinepak', '.avi'), ('wmv2', '.wmv'),
    ('mpeg4', '.nut'), ('mpeg2video', '.mpg'), ('ffv1', '.mkv'), ('svq1', '.mov'),
)  # fmt: skip
#: Of those of the boxes of mp4.
BOXED = (('libx264', '.mp4'), ('mpeg4', '.mp4'), ('libx264', '.mov'), ('h263', '.3gp'))
#: Of those that say of each packet whether it is a key frame.
FLAGGED = (
    ('mpeg4', '.avi'), ('cinepak', '.avi'), ('libx264', '.mkv'), ('mpeg4', '.mkv'),
    ('libvpx', '.webm'), ('mpeg4', '.mp4'), ('libx264', '.mp4'), ('mpeg4', '.nut'),
    ('flv', '.flv'), ('wmv2', '.wmv'),
)  # fmt: skip


def _changed(made: Made, change: Callable[..., bytes], *arguments: Any) -> Made:
    made.path.write_bytes(change(made.path.read_bytes(), *arguments))
    return made


def _turned(path: Path, random: np.random.Generator, mirrored: bool) -> Made:
    names = [n for n, (a, b, c, d) in MATRICES.items() if (a * d - b * c < 0) == mirrored]
    name = str(random.choice(names))
    made = write(path, drawn(random, BOXED))
    made = _changed(made, boxes.turned, MATRICES[name], WIDTH, HEIGHT)
    return made._replace(shown=[Mark(mark.number, name) for mark in made.shown])


# -- well made -----------------------------------------------------------------------------------


def plain(path: Path, random: np.random.Generator) -> Made:
    """Nothing special."""
    made = write(path, drawn(random, PLAIN))
    # A pack of mpg holds several frames and the time of one.
    return made._replace(times=None) if made.path.suffix == '.mpg' else made


def with_sound(path: Path, random: np.random.Generator) -> Made:
    """Sound that begins with the pictures."""
    return write(path, drawn(random, TIMED, sound=True))


def turned(path: Path, random: np.random.Generator) -> Made:
    """Held in one of four ways, as phones tell."""
    return _turned(path, random, mirrored=False)


def variable_rate(path: Path, random: np.random.Generator) -> Made:
    """Frames that stay for 40 to 400 ms."""
    recipe = drawn(random, (('libx264', '.mp4'), ('libvpx', '.webm'), ('libx264', '.mkv')))
    steps = random.integers(1, 11, recipe.frames - 1) / RATE
    return write(path, recipe._replace(times=[0.0, *np.cumsum(steps).tolist()]))


def latin_title(path: Path, random: np.random.Generator) -> Made:
    """A title that is no UTF-8."""
    choices = (('libx264', '.mkv'), ('libx264', '.mp4'), ('mpeg4', '.avi'), ('flv', '.flv'))
    made = write(path, drawn(random, choices, title='TITLE'))
    return _changed(made, bytes.replace, b'TITLE', b'\xc9t\xe9 \xff')


def real_media(path: Path, random: np.random.Generator) -> Made:
    """A container in which no jump is possible."""
    return write(path, drawn(random, (('rv10', '.rm'), ('rv20', '.rm'))))


# -- badly made ----------------------------------------------------------------------------------


def mirrored(path: Path, random: np.random.Generator) -> Made:
    """Shown as in a mirror, in one of four ways."""
    return _turned(path, random, mirrored=True)


def no_key_list(path: Path, random: np.random.Generator) -> Made:
    """No ``stss``: every frame would be a key frame."""
    return _changed(write(path, drawn(random, BOXED)), boxes.without_key_list)


def false_key_list(path: Path, random: np.random.Generator) -> Made:
    """``stss`` lists others than the key frames, the first one or not."""
    made = write(path, drawn(random, BOXED, gop=8))
    count = boxes.key_count(made.path.read_bytes())
    chosen = random.choice(np.arange(2, len(made.shown) + 1), count, replace=False)
    samples = sorted(chosen.tolist())
    if random.random() < 0.5:
        samples[0] = 1
    return _changed(made, boxes.with_key_list, samples)


def all_keys(path: Path, random: np.random.Generator) -> Made:
    """Every packet is flagged as a key frame."""
    return write(path, drawn(random, FLAGGED, change=_flagged(lambda i: True)))


def no_keys(path: Path, random: np.random.Generator) -> Made:
    """No packet is flagged as a key frame, or none but the first."""
    first = random.random() < 0.5
    choices = (('mpeg4', '.avi'), ('cinepak', '.avi'), ('libx264', '.mkv'), ('mpeg4', '.nut'))
    return write(path, drawn(random, choices, change=_flagged(lambda i: first and i == 0)))


def wrong_keys(path: Path, random: np.random.Generator) -> Made:
    """Packets are flagged as key frames at random."""
    flags = random.random(60) < 0.2
    flags[0] = True
    return write(path, drawn(random, FLAGGED, change=_flagged(lambda i: bool(flags[i]))))


def _flagged(is_key: Callable[[int], bool]) -> Callable[[list[av.Packet]], list[av.Packet]]:
    def change(packets: list[av.Packet]) -> list[av.Packet]:
        for i, packet in enumerate(packets):
            packet.is_keyframe = is_key(i)
        return packets

    return change


def late_picture(path: Path, random: np.random.Generator) -> Made:
    """The sound begins first."""
    late = float(random.choice([0.04, 0.52, 2.0, 7.2]))
    return write(path, drawn(random, TIMED, sound=True, late=late))


def late_sound(path: Path, random: np.random.Generator) -> Made:
    """The picture begins first."""
    late = float(random.choice([0.04, 0.52, 1.0]))
    return write(path, drawn(random, TIMED, sound=True, sound_late=late))


def far_clock(path: Path, random: np.random.Generator) -> Made:
    """The clock is at some hours when the file begins, as in a part of a broadcast."""
    choices = (('libx264', '.mkv'), ('mpeg2video', '.ts'), ('libx264', '.ts'), ('mpeg4', '.nut'))
    begin, late = float(random.integers(10, 90_000)), float(random.choice([0.0, 1.0]))
    recipe = drawn(random, choices, sound=True, late=begin + late, sound_late=begin)
    return write(path, recipe)


def negative_start(path: Path, random: np.random.Generator) -> Made:
    """The clock is below zero when the file begins, where ffmpeg drops what the file says."""
    choices = (('libx264', '.mkv'), ('mpeg4', '.mkv'), ('libvpx', '.webm'))
    begin = -float(random.choice([0.4, 2.0]))
    muxing = {'avoid_negative_ts': 'disabled'}
    return write(path, drawn(random, choices, late=begin, muxing=muxing))._replace(times=None)


def edit(path: Path, random: np.random.Generator) -> Made:
    """An edit list shows a part that begins anywhere: a cut that encodes nothing."""
    choices = (('libx264', '.mp4'), ('mpeg4', '.mp4'), ('libx264', '.mov'))
    made = write(path, drawn(random, choices))
    first = int(random.integers(1, 10))
    stop = int(random.integers(first + 8, len(made.shown) + 1))
    made = _changed(made, boxes.with_edit, first / RATE, (stop - first) / RATE)
    times = [(i - first) / RATE for i in range(first, stop)]
    return made._replace(shown=made.shown[first:stop], times=times)


def gap(path: Path, random: np.random.Generator) -> Made:
    """The clock jumps ahead, by seconds or by fifty years."""
    choices = (('libx264', '.mkv'), ('mpeg4', '.mkv'), ('mpeg4', '.nut'))
    recipe = drawn(random, choices)
    jump, place = float(random.choice([30.0, 1e5, 1.7e9])), int(random.integers(1, recipe.frames))
    times = [i / RATE + (jump if i >= place else 0) for i in range(recipe.frames)]
    return write(path, recipe._replace(times=times))


def cut_gop(path: Path, random: np.random.Generator) -> Made:
    """A transport stream that begins after its first key frame; the sound begins there, too."""
    choices = (('libx264', '.ts'), ('mpeg2video', '.ts'))
    recipe = drawn(random, choices, gop=12, reorder=0, sound=bool(random.random() < 0.5))
    lost = int(random.integers(1, 12))
    recipe = recipe._replace(change=lambda packets: packets[lost:])
    if recipe.sound:
        recipe = recipe._replace(sound_late=lost / RATE)
    made = write(path, recipe)
    times = [(i - lost) / RATE for i in range(12, recipe.frames)]
    return made._replace(shown=made.shown[12:], times=times)


def packed(path: Path, random: np.random.Generator) -> Made:
    """Packed B-frames in an avi file."""
    frames = 1 + 2 * int(random.integers(10, 30))
    recipe = Recipe('mpeg4', '.avi', frames=frames, gop=12, reorder=1, change=pack)
    return write(path, recipe)._replace(times=None)  # decoders are one frame late, or not


def doubled_times(path: Path, random: np.random.Generator) -> Made:
    """Some frames come at the very time of the one before."""
    choices = (('libx264', '.mkv'), ('mpeg4', '.mkv'), ('libx264', '.flv'), ('libvpx', '.webm'))
    recipe = drawn(random, choices, reorder=0)
    doubled = set(random.choice(np.arange(1, recipe.frames), 3, replace=False).tolist())
    times = [(i - (i in doubled)) / RATE for i in range(recipe.frames)]
    return write(path, recipe._replace(times=times))._replace(times=None)


def no_times(path: Path, random: np.random.Generator) -> Made:
    """Coded pictures alone, without a container, or with one that has no times of showing."""
    choices = (
        *(('libx264', '.h264'), ('mpeg4', '.m4v'), ('mpeg1video', '.m1v')),
        *(('mpeg2video', '.m2v'), ('libx264', '.avi')),
    )
    recipe = drawn(random, choices)
    if recipe.codec != 'mpeg4':
        recipe = recipe._replace(reorder=int(random.integers(0, 3)))
    return write(path, recipe)._replace(times=None)


def _named(*kinds: Kind) -> dict[str, Kind]:
    return {kind.__name__.replace('_', ' '): kind for kind in kinds}


WELL: dict[str, Kind] = _named(
    plain, with_sound, turned, variable_rate, latin_title, real_media, shapes.wide_pixels,
    shapes.wide_turned, shapes.ratio_of_container, shapes.default_track, shapes.no_default_track,
    shapes.cover,
)  # fmt: skip
BADLY: dict[str, Kind] = _named(
    mirrored, no_key_list, false_key_list, all_keys, no_keys, wrong_keys, late_picture, late_sound,
    far_clock, negative_start, edit, gap, cut_gop, packed, doubled_times, no_times,
    broadcast.joined, broadcast.wrapped_clock, broadcast.doubled_packets, broadcast.counter_anew,
    broadcast.lost_packets, broadcast.lost_elsewhere,
)  # fmt: skip
