"""The converter to MS-SL's text files: its lines, what it refuses, and that datasets read it."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from mmvtr.datasets import ActivityNetMomentsDataset

TOOL = Path(__file__).parents[2] / 'tools/dataset_converters/prvr_captions.py'


@pytest.fixture
def root(tmp_path):
    entry = dict(duration=9, timestamps=[[0, 4], [3, 8]], sentences=[' It\nruns. ', 'It sits.'])
    (tmp_path / 'train.json').write_text(json.dumps({'v_b': entry, 'v_a': entry}))
    return tmp_path


def convert(monkeypatch, root, *options):
    arguments = ['prvr_captions.py', 'activitynet', root, '--split', 'train', *options]
    monkeypatch.setattr(sys, 'argv', [str(x) for x in arguments])
    runpy.run_path(str(TOOL), run_name='__main__')


def test_lines(root, monkeypatch, capsys):
    convert(monkeypatch, root)
    path = root / 'TextData/activitynettrain.caption.txt'
    assert path.read_text().splitlines() == [
        'v_b#enc#0 It runs.', 'v_b#enc#1 It sits.', 'v_a#enc#0 It runs.', 'v_a#enc#1 It sits.'
    ]  # fmt: skip
    assert f'{path}: 4 captions' in capsys.readouterr().out
    with pytest.raises(SystemExit, match='caption.txt is there already'):
        convert(monkeypatch, root)


def test_some_videos(root, monkeypatch):
    (root / 'list.txt').write_text('v_a\n')
    convert(monkeypatch, root, '--only', root / 'list.txt')
    dataset = ActivityNetMomentsDataset(
        'train', ann_root=str(root), video_pipeline=[], text_pipeline=[]
    )
    assert [text['text_id'] for text in dataset.texts] == ['v_a#enc#0', 'v_a#enc#1']
    assert [text['end'] for text in dataset.texts] == [4, 8]


def test_what_it_refuses(root, monkeypatch):
    (root / 'list.txt').write_text('v_a\nv_z\n')
    with pytest.raises(SystemExit, match=r"train does not have 1 of 2 listed videos, .*'v_z'"):
        convert(monkeypatch, root, '--only', root / 'list.txt')
    assert not (root / 'TextData').exists()
    (root / 'train.json').unlink()
    with pytest.raises(SystemExit, match='error: .* needs .*train.json'):
        convert(monkeypatch, root)
