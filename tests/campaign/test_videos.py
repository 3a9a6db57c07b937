"""A few seconds of the campaign with video files, and that its judge sees what it must."""

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
    left = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert left == [], 'files of good trials are removed'


def test_a_campaign_repeats_itself(tmp_path, monkeypatch):
    only(monkeypatch, 'zeroed')
    found = []
    for name in ('a', 'b'):
        (tmp_path / name).mkdir()
        found.append(videos.run(12, 5, tmp_path / name))
    assert found[0] == found[1]


def test_an_accepted_cut_is_seen(tmp_path, monkeypatch):
    only(monkeypatch, 'cut')
    monkeypatch.setattr(video_files, 'stated_size', lambda file, size: None)
    trials = videos.run(40, 0, tmp_path)
    silent = [trial for trial in trials if trial.verdict == 'silent']
    assert silent and 'cut at byte' in silent[0].detail
    assert any(path.is_dir() for path in tmp_path.iterdir()), 'the files are left to look at'


def test_a_hang_is_seen(tmp_path, monkeypatch):
    only(monkeypatch, 'no file')
    monkeypatch.setattr(video_io, 'missing_bytes', lambda path: None)
    monkeypatch.setattr(apart, 'TIME_LIMIT', 0.5)
    hanging = [t for t in videos.run(12, 0, tmp_path) if t.verdict == 'hang']
    assert hanging and 'pipe' in hanging[0].detail


def test_a_refused_whole_file_is_seen(tmp_path, monkeypatch):
    only(monkeypatch, 'whole')

    def refuse(path, *args, **kwargs):
        raise video_io.BrokenVideoError(f'{path}: too odd')

    monkeypatch.setattr(videos, 'read_frames', refuse)
    assert verdicts(videos.run(3, 0, tmp_path)) == {'lost'}


def test_wrong_frames_of_a_whole_file_are_seen(tmp_path, monkeypatch):
    only(monkeypatch, 'whole')
    original = video_io.read_frames
    monkeypatch.setattr(videos, 'read_frames', lambda *a, **k: original(*a, **k)[::-1])
    assert verdicts(videos.run(3, 0, tmp_path)) == {'lost'}


@pytest.mark.parametrize(
    'error, verdict',
    [
        (TypeError('x'), 'raw'),
        (video_io.BrokenVideoError('what is wrong'), 'nameless'),
        (SystemExit(3), 'hang'),
    ],
)
def test_bad_errors_are_seen(tmp_path, monkeypatch, error, verdict):
    only(monkeypatch, 'cut')

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(videos, 'read_frames', fail)
    assert verdicts(videos.run(2, 0, tmp_path)) == {verdict}


def test_what_cannot_be_told_is_as_declared():
    silent = {kind for kind in CONTAINERS if not tells(kind, 1000)}
    expected = {'mp4, fragments', 'webm, live', 'flv, no metadata', 'mpg', 'nut'}
    assert silent == expected
    assert not tells('ts', 188 * 5) and tells('ts', 188 * 5 + 1) and tells('mp4', 188 * 5)
