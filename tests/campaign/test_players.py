"""A few seconds of the campaign with known pictures; its reference, and that its judge sees."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from campaign import kinds, marked, players
from campaign.marked import MATRICES, Mark
from campaign.trial import BAD
from mmvtr.datasets.videos.video_io import BrokenVideoError

KINDS = {**kinds.WELL, **kinds.BADLY}
#: Of which ffmpeg's command shows something else: it conceals what is lost and decodes copies.
CONCEALED = ('lost packets', 'doubled packets')
#: Whose times it joins without ``-copyts`` alone.
JOINED = ('joined', 'wrapped clock')


def make(name: str, folder: Path, seed: int = 0):
    return KINDS[name](folder / name.replace(' ', '_'), np.random.default_rng(seed))


# -- the reference -------------------------------------------------------------------------------


@pytest.mark.parametrize('name', MATRICES)
def test_a_picture_tells_its_number_and_how_it_is_turned(name):
    for number in (0, 1, 2, 511, 512, 1023):
        shown = marked.turn(marked.draw(number, 8), MATRICES[name])
        assert marked.read(shown) == Mark(number, name)


def test_a_damaged_picture_is_unreadable():
    whole = marked.draw(37)
    for row in range(marked.ROWS):
        for column in range(marked.COLUMNS):
            block = (slice(16 * row, 16 * row + 16), slice(16 * column, 16 * column + 16))
            for value in (128, 255 - whole[block]):
                damaged = whole.copy()
                damaged[block] = value
                assert marked.read(damaged) is None
    assert marked.read(whole[:80]) is None


def test_turning_is_that_of_the_matrix():
    """Of every pixel, as the standard has it."""
    image = np.arange(6).reshape(2, 3)
    for a, b, c, d in MATRICES.values():
        places = {(a * x + c * y, b * x + d * y): image[y, x] for y in range(2) for x in range(3)}
        left, top = (min(place[i] for place in places) for i in (0, 1))
        shown = marked.turn(image, (a, b, c, d))
        for (x, y), value in places.items():
            assert shown[y - top, x - left] == value


@pytest.mark.skipif(shutil.which('ffmpeg') is None, reason='needs the command ffmpeg')
@pytest.mark.parametrize(
    'name, seeds',
    [pytest.param(name, range(1)) for name in KINDS if name not in CONCEALED]
    + [
        pytest.param(name, range(1, 12), marks=pytest.mark.nightly)
        for name in KINDS
        if name not in CONCEALED
    ],
)
def test_ffmpeg_shows_what_is_expected(tmp_path, name, seeds):
    for seed in seeds:
        made = make(name, tmp_path, seed)
        joined = name in JOINED
        shown, times = by_ffmpeg(made.path, tmp_path, joined)
        assert shown == made.shown, made.path
        if made.times is not None and (not joined or made.path.suffix == '.ts'):
            np.testing.assert_allclose(times, made.times, atol=made.slack)


def by_ffmpeg(path: Path, folder: Path, joined: bool) -> tuple[list, list[float]]:
    """What its command line makes of a file: every frame as it is shown, and its time."""
    keep = '-fps_mode passthrough -enc_time_base -1 -c:v rawvideo'.split()
    keep += ['-vf', 'scale=round(iw*if(sar\\,sar\\,1)):ih']
    clock = [] if joined else ['-copyts', '-start_at_zero']
    command = ['ffmpeg', '-v', 'error', '-y', *clock, '-i', str(path)]
    command += ['-an', *keep, '-pix_fmt', 'rgb24', '-f', 'rawvideo', 'pictures']
    command += [*keep, '-f', 'framecrc', 'times']
    subprocess.run(command, check=True, cwd=folder)
    lines = (folder / 'times').read_text().splitlines()
    about = {line.split()[0]: line.split()[2] for line in lines if line[:2] in ('#t', '#d')
             and line.split()[1] == '0:'}  # fmt: skip
    width, height = map(int, about['#dimensions'].split('x'))
    over, under = map(int, about['#tb'].split('/'))
    times = [int(line.split(',')[2]) * over / under for line in lines if line.startswith('0,')]
    pictures = np.fromfile(folder / 'pictures', np.uint8).reshape(-1, height, width, 3)
    return [marked.read(picture) for picture in pictures], times


# -- the reader ----------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_share_of_the_campaign(tmp_path):
    trials = players.run(64, 3, tmp_path)
    assert {trial.row for trial in trials} == set(KINDS)
    assert [trial for trial in trials if trial.verdict in BAD] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_a_campaign_repeats_itself(tmp_path):
    assert players.run(8, 5, tmp_path) == players.run(8, 5, tmp_path)


def read_with(change) -> None:
    """In the process that reads: another reader, which may change the frames."""
    players.read_frames = partial(change, players.read_frames)


def verdicts(tmp_path, monkeypatch, change, name='plain') -> set[str]:
    monkeypatch.setattr(players, 'WELL', {name: KINDS[name]})
    monkeypatch.setattr(players, 'BADLY', {name: KINDS[name]})
    trials = players.run(2, 0, tmp_path, partial(read_with, change))
    return {trial.verdict for trial in trials}


def one_before(read, path, select, **options):
    return read(path, lambda times: np.maximum(select(times) - 1, 0), **options)


def later(read, path, select, **options):
    return read(path, lambda times: select(times + 0.02), **options)


def mirrored(read, *args, **options):
    return [frame[:, ::-1] for frame in read(*args, **options)]


def refused(read, *args, **options):
    raise BrokenVideoError('x')


def large(read, *args, **options):
    np.ones(players.MEMORY, np.uint8)


@pytest.mark.parametrize(
    'change, kind, seen',
    [
        pytest.param(one_before, 'plain', 'silent', id='other frames'),
        pytest.param(later, 'with sound', 'silent', id='other times'),
        pytest.param(mirrored, 'turned', 'silent', id='turned'),
        pytest.param(refused, 'plain', 'lost', id='refused'),
        pytest.param(large, 'plain', 'raw', id='much memory'),
    ],
)
def test_a_bad_reader_is_seen(tmp_path, monkeypatch, change, kind, seen):
    assert verdicts(tmp_path, monkeypatch, change, kind) == {seen}
