"""The data checker: what it prints, and its exit code."""

import os
import runpy
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from mmvtr.datasets.videos import video_io
from mmvtr.datasets.videos.missing import read_broken

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


@pytest.fixture
def many(config, write_video):
    """A config of 40 videos and captions."""
    folder = config.parent
    rows = ['key,vid_key,video_id,sentence']
    for i in range(40):
        write_video(folder / f'videos/video{i}.mp4', range(0, 100, 10))
        rows.append(f'ret{i},msr{i},video{i},a man sings')
    (folder / 'MSRVTT_JSFUSION_test.csv').write_text('\n'.join(rows) + '\n')
    return config


def cut(config: Path, *numbers: int) -> None:
    for number in numbers:
        path = config.parent / f'videos/video{number}.mp4'
        path.write_bytes(path.read_bytes()[:-200])


def test_missing_videos_are_counted(many, monkeypatch, capsys):
    for number in (3, 5):
        (many.parent / f'videos/video{number}.mp4').unlink()
    assert check(monkeypatch, many) == 1
    printed = capsys.readouterr().out
    assert '2 of 40 video files are missing' in printed
    assert '; PART_dataloader.dataset.missing=skip leaves them out' in printed
    skip = ('--cfg-options', 'test_dataloader.dataset.missing=skip')
    assert check(monkeypatch, many, *skip) == 0
    printed = capsys.readouterr().out
    assert 'videos 38, texts 38' in printed
    assert '2 of 40 clips and 2 of 40 texts are missing and LEFT OUT' in printed


def test_some_items_are_tried(many, monkeypatch, capsys):
    """The same 16 each time, the first among them."""
    assert check(monkeypatch, many) == 0
    assert '16 videos and 16 texts read in' in capsys.readouterr().out
    cut(many, *range(1, 40))
    printed = []
    for _ in range(2):
        assert check(monkeypatch, many) == 1
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert (
        '15 of 16 videos that were tried are broken (--decode tries all videos, and' in printed[0]
    )
    assert printed[0].count('mp4: cut short') == 5, 'a few are named'
    assert check(monkeypatch, many, '--samples', '1') == 0


def test_all_are_decoded_and_listed(many, tmp_path, monkeypatch, capsys):
    report = tmp_path / 'broken.txt'
    decode = ('--samples', '1', '--decode', '--workers', '2', '--report', str(report))
    assert check(monkeypatch, many, *decode) == 0
    printed = capsys.readouterr().out
    assert 'decoding 40 videos in 2 processes\nvideos decoded: 40 of 40 in ' in printed
    assert '0 of 40 videos are broken' in printed and read_broken(report) == {}

    cut(many, 7, 31)
    assert check(monkeypatch, many, *decode) == 1
    printed = capsys.readouterr().out
    assert '2 of 40 videos are broken' in printed
    assert (
        f'PART_dataloader.dataset.on_broken.skip={report}. ' in printed
        and 'cannot be compared' in printed
    )
    broken = read_broken(report)
    assert [*broken] == ['video7', 'video31'] and 'video7.mp4: cut short' in broken['video7']

    listed = ('--cfg-options', f'test_dataloader.dataset.on_broken.skip={report}')
    assert check(monkeypatch, many, *decode, *listed) == 0
    printed = capsys.readouterr().out
    assert '2 listed as broken and LEFT OUT' in printed
    assert '0 of 38 videos are broken, beside 2 that were known to be' in printed
    assert read_broken(report) == broken, 'they stay on the list'


def test_damage_between_the_chosen_frames_is_found(config, tmp_path, monkeypatch):
    path = config.parent / 'videos/video7.mp4'
    data = bytearray(path.read_bytes())
    end = data.index(b'moov') - 4  # of the pictures
    data[end - 60 : end] = bytes(60)
    path.write_bytes(data)
    first = ('--cfg-options', 'test_dataloader.dataset.video_pipeline.0.num_frames=1')
    assert check(monkeypatch, config, *first) == 0
    report = ('--decode', '--report', str(tmp_path / 'broken.txt'))
    assert check(monkeypatch, config, *report, *first) == 1
    assert [*read_broken(tmp_path / 'broken.txt')] == ['video7']


def test_a_video_that_kills_the_decoder_is_listed(many, tmp_path, monkeypatch, capsys):
    original = video_io.decode_all

    def fatal(path, **options):
        if path.endswith(('video3.mp4', 'video38.mp4')):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(path, **options)

    monkeypatch.setattr(video_io, 'decode_all', fatal)
    report = ('--decode', '--workers', '2', '--report', str(tmp_path / 'broken.txt'))
    assert check(monkeypatch, many, *report) == 1
    died = 'the process that decoded it died'
    assert read_broken(tmp_path / 'broken.txt') == {'video3': died, 'video38': died}
    assert 'videos decoded: 40 of 40 in ' in capsys.readouterr().out


@pytest.mark.parametrize('option', ['--samples', '--workers'])
def test_counts_are_positive(config, monkeypatch, capsys, option):
    assert check(monkeypatch, config, option, '0') == 2
    assert f"{option}: an integer of 1 or more expected, got '0'" in capsys.readouterr().err


# -- a table of one's own ----------------------------------------------------------------------

OWN = """
default_scope = 'mmvtr'
own = dict(
    type='TableDataset', table='{root}/my.csv', videos='{root}/clips', read_durations=True,
    video_pipeline=[dict(type='LoadVideo', num_frames=4)],
    text_pipeline=[dict(type='WordTokenize', vocab_file='{root}/words.txt', context_length=5)],
)
train_dataloader = dict(dataset=dict(**own, split='train'))
val_dataloader = dict(dataset=dict(**own, split='val'))
test_dataloader = dict(dataset=dict(**own, split='test'))
shortcuts = dict(
    missing=[f'{{part}}_dataloader.dataset.missing' for part in ('train', 'val', 'test')],
    on_broken=[f'{{part}}_dataloader.dataset.on_broken' for part in ('train', 'val', 'test')],
)
"""
SEMI_CLEAN = [
    'video,text', 'c0,a', 'c1.mp4,a b', 'c2,a', 'c2.mp4,a', 'c3,', 'c4,\U0001f408 a', 'gone,b',
    'cut,a', 'c5,a b c d', 'c6,a', 'c7,b,c', 'none,b',
]  # fmt: skip


@pytest.fixture
def own(tmp_path, write_video):
    """A config of a table with one row of each kind of problems."""
    (tmp_path / 'clips').mkdir()
    for name in ('cut', *(f'c{number}' for number in range(9))):
        write_video(tmp_path / f'clips/{name}.mp4', range(0, 100, 10))
    clip = tmp_path / 'clips/cut.mp4'
    clip.write_bytes(clip.read_bytes()[:-200])
    (tmp_path / 'clips/none.mp4').write_bytes(b'nothing')
    (tmp_path / 'words.txt').write_text('a\nb\nc\nd\n\U0001f408\n', encoding='utf-8')
    (tmp_path / 'my.csv').write_text('\n'.join(SEMI_CLEAN), encoding='utf-8')
    path = tmp_path / 'own.py'
    path.write_text(OWN.format(root=tmp_path))
    return path


def test_a_semi_clean_table_is_clean_after_one_round(own, monkeypatch, capsys):
    monkeypatch.chdir(own.parent)
    assert check(monkeypatch, own, '--decode', '--workers', '1') == 1
    printed = capsys.readouterr().out
    for said in (
        'my.csv has 5 kinds of problems:',
        "row of another width (1): line 12: expected 2 fields, as the header has, found ['c7', 'b'",
        "empty or unfit caption (1): line 6, 'text': expected a caption",
        '1 rows repeat a video and its text: line 5 as line 4: ',
        f'1 of 10 videos are not in {own.parent}/clips: gone in line 8',
        f'2 of 9 files are not videos: {own.parent}/clips/cut.mp4: cut short: ',
        f'; {own.parent}/clips/none.mp4: Invalid data',
        'missing=skip leaves out the rows of missing videos',
        'on_broken.skip=broken_videos.txt leaves out what is listed there',
        'val: MISSING OR BROKEN, as train',
        '2 of 9 videos are broken',
        'cut.mp4: ',
        'to do without them: on_broken.skip=broken_videos.txt. ',
    ):
        assert said in printed, said
    rows = [row for n, row in enumerate(SEMI_CLEAN, 1) if n not in (5, 6, 8, 12)]
    (own.parent / 'my.csv').write_text('\n'.join(rows), encoding='utf-8')
    told = ('--cfg-options', 'on_broken.skip=broken_videos.txt')
    assert check(monkeypatch, own, '--decode', '--workers', '1', *told) == 0
    printed = capsys.readouterr().out
    assert 'LEFT OUT' in printed and '0 of 6 videos are broken, beside 2' in printed
    cut = 'captions is longer than 5 tokens and is cut (the longest has 6)'
    assert cut in printed


STORED = """
default_scope = 'mmvtr'
test_dataloader = dict(
    dataset=dict(
        type='MSRVTTDataset',
        split='1kA_test',
        ann_root='{root}',
        video_pipeline=[{video}],
        text_pipeline=[{text}],
    )
)
"""


@pytest.fixture
def stored(config, monkeypatch):
    """A config of 40 videos and captions, of features that are in files."""
    folder = config.parent
    rows = [f'ret{i},msr{i},video{i},a man sings' for i in range(40)]
    table = '\n'.join(['key,vid_key,video_id,sentence', *rows]) + '\n'
    (folder / 'MSRVTT_JSFUSION_test.csv').write_text(table)
    for side, name in (('f', 'video'), ('w', 'ret'), ('e', 'video')):
        (folder / side).mkdir()
        for i in range(40):
            np.save(folder / side / f'{name}{i}.npy', np.full((3, 4), i, np.float32))

    def write(video, text):
        config.write_text(STORED.format(root=folder, video=video, text=text))
        return config

    monkeypatch.chdir(folder)
    return write


FEATURES, WORDS = "dict(type='LoadFeatures', path='f')", "dict(type='LoadTextFeatures', path='w')"


@pytest.mark.parametrize(
    'video, text, file, told',
    [
        (FEATURES, WORDS, 'f/video37.npy', 'videos'),
        (FEATURES, WORDS, 'w/ret38.npy', 'texts'),
        (
            "dict(type='LoadExperts', experts=dict(e=dict(path='e', dim=4)))",
            WORDS,
            'e/video29.npy',
            'videos',
        ),
        (
            f"{FEATURES}, dict(type='LoadVectors', side='video', stores=dict(t='e'))",
            WORDS,
            'e/video31.npy',
            'videos',
        ),
        (
            f"{FEATURES}, dict(type='LoadFrameVectors', stores=dict(t='e'))",
            WORDS,
            'e/video30.npy',
            'videos',
        ),
    ],
)
@pytest.mark.parametrize('value', [np.nan, -np.inf])
def test_stored_features_are_all_read(stored, monkeypatch, capsys, video, text, file, told, value):
    path = stored(video, text)
    assert check(monkeypatch, path) == 0
    assert '40 videos and 40 texts read in' in capsys.readouterr().out
    rows = np.load(file)
    rows[2, 1] = value
    np.save(file, rows)
    assert check(monkeypatch, path) == 1
    printed = capsys.readouterr().out
    assert f'1 of 40 {told} that were tried are broken' in printed
    name = Path(file).stem
    assert f"{file}: features of '{name}': {value} in row 2, column 1: expected fin" in printed


def test_features_that_are_not_finite_are_listed(stored, monkeypatch, capsys):
    path = stored(FEATURES, WORDS)
    for i in (3, 38):
        np.save(f'f/video{i}.npy', np.full((2, 4), np.nan))
    assert check(monkeypatch, path, '--decode', '--workers', '1') == 1
    assert '2 of 40 videos are broken' in capsys.readouterr().out
    assert set(read_broken(Path('broken_videos.txt'))) == {'video3', 'video38'}
    skip = 'test_dataloader.dataset.on_broken.skip=broken_videos.txt'
    assert check(monkeypatch, path, '--cfg-options', skip) == 0
