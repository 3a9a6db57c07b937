"""The data checker: what it prints, and its exit code."""

import runpy
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / 'tools/dataset_converters/check_dataset.py'

CONFIG = """
default_scope = 'mmvtr'
test_dataloader = dict(
    dataset=dict(
        type='MSRVTTDataset',
        split='1kA_test',
        ann_root='{root}',
        video_pipeline=[dict(type='LoadVideo', num_frames=4)],
        text_pipeline=[dict(type='WordTokenize', vocab_file='{root}/vocab.txt')],
    )
)
"""


@pytest.fixture
def config(tmp_path, write_video):
    (tmp_path / 'videos').mkdir()
    write_video(tmp_path / 'videos/video7.mp4', range(0, 100, 10))
    (tmp_path / 'vocab.txt').write_text('a\nman\nsings\n')
    (tmp_path / 'MSRVTT_JSFUSION_test.csv').write_text(
        'key,vid_key,video_id,sentence\nret0,msr7,video7,a man sings\n'
    )
    path = tmp_path / 'config.py'
    path.write_text(CONFIG.format(root=tmp_path))
    return path


def check(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, 'argv', ['check_dataset.py', *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_info:
        runpy.run_path(str(TOOL), run_name='__main__')
    return exit_info.value.code


def test_complete_data(config, monkeypatch, capsys):
    assert check(monkeypatch, config) == 0
    printed = capsys.readouterr().out
    assert 'test: dataset MSRVTTDataset, split 1kA_test' in printed
    assert 'videos 1, texts 1' in printed
    assert 'video video7: uint8 [4, 3, 32, 48]; text ret0: int64 [5]' in printed


def test_missing_video(config, monkeypatch, capsys):
    (config.parent / 'videos/video7.mp4').unlink()
    assert check(monkeypatch, config) == 1
    assert '1 of 1 video files are missing' in capsys.readouterr().out


def test_missing_annotations_by_option(config, monkeypatch, capsys):
    option = 'test_dataloader.dataset.ann_root=nowhere'
    assert check(monkeypatch, config, '--cfg-options', option) == 1
    printed = capsys.readouterr().out
    assert 'needs nowhere/MSRVTT_JSFUSION_test.csv' in printed and len(printed.splitlines()) < 10


def test_broken_sample(config, monkeypatch, capsys):
    (config.parent / 'videos/video7.mp4').write_bytes(b'')
    assert check(monkeypatch, config) == 1
    assert 'video7.mp4: Invalid data' in capsys.readouterr().out
