"""A share of the folders, and that wrong listings are seen."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from campaign import folders
from campaign.trial import BAD


def test_each_file_of_a_folder_is_found_once(tmp_path):
    trials = folders.run(30, 1, tmp_path)
    assert [trial for trial in trials if trial.verdict in BAD] == []
    assert {trial.row for trial in trials} == {'with links', 'without links'}


@pytest.mark.parametrize(
    'listed, verdict',
    [
        (lambda files: files, 'right'),
        (lambda files: files[::-1], 'right'),
        (lambda files: files + files[:1], 'silent'),
        (lambda files: files[1:], 'lost'),
        (lambda files: [*files, '/x.mp4'], 'lost'),
        (lambda files: 1 / 0, 'raw'),
        (lambda files: time.sleep(60), 'hang'),
    ],
)
def test_wrong_listings_are_seen(tmp_path, monkeypatch, listed, verdict):
    for name in ('a.mp4', 'b.mkv'):
        (tmp_path / name).touch()
    files = sorted(folders.files_of(tmp_path))
    monkeypatch.setattr(folders, 'SECONDS', 0.2)
    monkeypatch.setattr(folders, 'video_inputs', lambda *a: SimpleNamespace(sources=listed(files)))
    assert folders.judge('x', tmp_path).verdict == verdict


def test_what_is_there(tmp_path):
    (tmp_path / 'sub').mkdir()
    for name in ('a.mp4', 'sub/b.MKV', '.c.mp4', 'd.txt'):
        (tmp_path / name).touch()
    (tmp_path / 'e.mp4').symlink_to(tmp_path / 'a.mp4')
    (tmp_path / 'loop').symlink_to(tmp_path)
    assert folders.files_of(tmp_path) == {str(tmp_path / 'a.mp4'), str(tmp_path / 'sub/b.MKV')}
