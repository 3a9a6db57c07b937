"""A few seconds of the campaign with video files, and that its judge sees what it must."""

import os
import time
from functools import partial

import pytest

from campaign import apart, videos
from campaign.clips import CONTAINERS, tells
from campaign.trial import BAD, count
from mmvtr.datasets.videos import video_files, video_io


@pytest.fixture(autouse=True)
def made_clips_only(monkeypatch, tmp_path):
    """The shared clips are larger, and other tests read them."""
    monkeypatch.setenv('MMVTR_SHARED', str(tmp_path))


def only(monkeypatch, act: str) -> None:
    """One kind of trial, on three kinds of clips."""
    few = {kind: CONTAINERS[kind] for kind in ('mp4', 'mp4, index first', 'webm')}
    monkeypatch.setattr(videos, 'CONTAINERS', few)
    monkeypatch.setattr(videos, 'SHARES', {act: 1.0})


def verdicts(trials) -> set[str]:
    return {trial.verdict for trial in trials}


def test_a_share_of_the_campaign(tmp_path):
    trials = videos.run(80, 0, tmp_path)
    assert len(trials) == 80
    bad = [trial for trial in trials if trial.verdict in BAD]
    assert not bad, videos.in_words(bad)
    rows = count(trials)
    assert rows['no file']['refused'] and rows['no video']['refused'] and rows['whole']['right']
    assert sum(row['refused'] for name, row in rows.items() if name.startswith('cut')) > 12
    compared = [t for t in trials if t.row in ('whole', 'renamed') and t.verdict == 'right']
    assert len(compared) > 8, 'pictures that are those of PyAV alone'
    left = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert left == [], 'files of good trials are removed'


def test_a_campaign_repeats_itself(tmp_path, monkeypatch):
    only(monkeypatch, 'zeroed')
    found = []
    for name in ('a', 'b'):
        (tmp_path / name).mkdir()
        found.append(videos.run(12, 5, tmp_path / name))
    assert found[0] == found[1]


# -- what is planted in the process that reads -----------------------------------------------------


def planted(place, name, function) -> None:
    setattr(place, name, function)


def knows_no_size(file, size) -> None:
    return None


def misses_nothing(path) -> None:
    return None


def fails(error, *args, **kwargs):
    raise error


def backwards(*args, **kwargs):
    return video_io.read_frames(*args, **kwargs)[::-1]


def silent(frame, width):
    time.sleep(100)


def dies(frame, width):
    os._exit(139)


def test_an_accepted_cut_is_seen(tmp_path, monkeypatch):
    only(monkeypatch, 'cut')
    trials = videos.run(40, 0, tmp_path, accept_cuts)
    silent = [trial for trial in trials if trial.verdict == 'silent']
    assert silent and 'cut at byte' in silent[0].detail
    assert any(path.is_dir() for path in tmp_path.iterdir()), 'the files are left to look at'


def accept_cuts() -> None:
    planted(video_files, 'stated_size', knows_no_size)


@pytest.mark.nightly
def test_a_hang_is_seen(tmp_path, monkeypatch):
    only(monkeypatch, 'no file')
    monkeypatch.setattr(apart, 'TIME_LIMIT', 5.0)
    hanging = [t for t in videos.run(12, 0, tmp_path, open_pipes) if t.verdict == 'hang']
    assert hanging and 'pipe' in hanging[0].detail


def open_pipes() -> None:
    planted(video_io, 'missing_bytes', misses_nothing)


def read_by(function) -> None:
    planted(videos, 'read_frames', function)


@pytest.mark.parametrize(
    'act, function, verdict',
    [
        ('whole', partial(fails, video_io.BrokenVideoError('clip: too odd')), 'lost'),
        ('whole', backwards, 'lost'),
        ('cut', partial(fails, TypeError('x')), 'raw'),
        ('cut', partial(fails, video_io.BrokenVideoError('what is wrong')), 'nameless'),
        ('cut', partial(fails, SystemExit(3)), 'hang'),
    ],
)
def test_a_bad_reader_is_seen(tmp_path, monkeypatch, act, function, verdict):
    only(monkeypatch, act)
    assert verdicts(videos.run(3, 0, tmp_path, partial(read_by, function))) == {verdict}


@pytest.mark.nightly
@pytest.mark.parametrize('function', [silent, dies, partial(fails, ValueError('x'))])
def test_a_reference_that_does_not_answer_ends_the_campaign(tmp_path, monkeypatch, function):
    """Otherwise nothing would be compared."""
    only(monkeypatch, 'whole')
    monkeypatch.setattr(apart, 'TIME_LIMIT', 5.0)
    with pytest.raises(RuntimeError, match='no reference'):
        videos.run(3, 0, tmp_path, partial(refer_to, function))


def refer_to(function) -> None:
    planted(videos, '_upright', function)


def test_what_cannot_be_told_is_as_declared():
    silent = {kind for kind in CONTAINERS if not tells(kind, 1000)}
    expected = {'mp4, fragments', 'webm, live', 'flv, no metadata', 'mpg', 'nut'}
    assert silent == expected
    assert not tells('ts', 188 * 5) and tells('ts', 188 * 5 + 1) and tells('mp4', 188 * 5)
