"""Which file a table means: accents in either spelling, links, names that look like something else.

Files are empty: nothing here decodes them.
"""

import logging
import os
import unicodedata

import numpy as np
import pytest
from mmengine.logging import MMLogger

from mmvtr.datasets import TableDataset
from mmvtr.datasets.annotation_values import Place
from mmvtr.datasets.problems import Problems
from mmvtr.datasets.tables.files import Wanted, open_sources

FRAMES = [dict(type='mmvtr.LoadVideo', num_frames=4)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / 'v').mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(*names):
    for name in names:
        path = os.path.join('v', name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, 'w').close()


def build(*names, videos='v', split='all', **options):
    with open('t.csv', 'w', encoding='utf-8') as file:
        file.write('\n'.join(['video,text', *(f'{name},x' for name in names)]))
    options = dict(video_pipeline=FRAMES) | options
    return TableDataset(split, table='t.csv', videos=videos, text_pipeline=[], **options)


def paths(dataset):
    return [video['path'] for video in dataset.videos]


def nfd(name):
    return unicodedata.normalize('NFD', name)


# -- accents -----------------------------------------------------------------------------------


@pytest.mark.parametrize('name', ['café.mp4', 'Übung/Größe 1.mov', 'が/パ.webm', 'naïve.v2.mkv'])
def test_either_spelling_means_the_file(folder, name):
    for number, (typed, there) in enumerate([(name, nfd(name)), (nfd(name), name)]):
        files(f'{number}/{there}')
        stem = typed.rpartition('.')[0]
        assert paths(build(f'{number}/{typed}')) == [f'v/{number}/{there}']
        assert paths(build(f'{number}/{stem}')) == [f'v/{number}/{there}']


def test_the_exact_spelling_wins(folder):
    names = ['café.mp4', nfd('café.mp4')]
    files(*names)
    dataset = build(*names)
    assert paths(dataset) == [f'v/{name}' for name in names]
    assert len({video['video_id'] for video in dataset.videos}) == 2


@pytest.mark.parametrize('suffix', ['', '.mp4'])
def test_two_files_and_neither_spelling(folder, suffix):
    mixed = 'é' + nfd('é')
    files(f'{nfd(mixed)}.mp4', f'{unicodedata.normalize("NFC", mixed)}.mp4')
    with pytest.raises(ValueError, match=r'line 2: 2 names of v differ only in how their accents'):
        build(f'{mixed}{suffix}')


def test_the_same_division_in_either_spelling(folder):
    names = [f'{letter}{number}.mp4' for number in range(4) for letter in 'äöüé']
    files(*names)
    composed = {part: paths(build(*names, split=part)) for part in ('train', 'val', 'test')}
    for name in names:
        os.rename(f'v/{name}', f'v/{nfd(name)}')
    for part, own in composed.items():
        assert paths(build(*names, split=part)) == [nfd(path) for path in own]


def test_features_in_either_spelling(folder):
    h5py = pytest.importorskip('h5py')
    with h5py.File('feats.h5', 'w') as file:
        file[nfd('café')] = np.ones((2, 3), np.float32)
    os.mkdir('feats')
    np.save(f'feats/{nfd("café")}.npy', np.ones((2, 3), np.float32))
    for store in ('feats.h5', 'feats'):
        read = [dict(type='LoadFeatures', path=store)]
        dataset = build('café.mp4', videos=store, video_pipeline=read)
        assert len(dataset.load_video(0)['frames']) == 2


# -- links -------------------------------------------------------------------------------------


def test_a_table_may_name_a_file_by_any_of_its_links(folder):
    files('a.mp4', 'b/c.mp4')
    os.symlink('a.mp4', 'v/best.mp4')
    os.symlink('b', 'v/latest')
    dataset = build('a', 'best', 'latest/c.mp4', 'latest/../b/c')
    assert [video['video_id'] for video in dataset.videos] == ['a', 'best', 'latest/c', 'b/c']
    assert all(os.path.isfile(path) for path in paths(dataset))


def test_files_are_listed_once(folder):
    files('a.mp4', 'b/c.mp4')
    os.symlink('a.mp4', 'v/best.mp4')
    os.symlink('.', 'v/up')
    os.symlink('b', 'v/latest')
    sources = open_sources(folder / 'v')
    assert sources.others([]) == ['a.mp4', 'b/c.mp4']
    found = sources.find({Wanted('best'): Place('t.csv')}, Problems('t.csv'))
    assert sources.others(iter(found.values())) == ['b/c.mp4']
    found = sources.find({Wanted('latest/c'): Place('t.csv')}, Problems('t.csv'))
    assert sources.others(found.values()) == ['a.mp4']


def test_features_of_parts_are_named_by_rows(folder):
    os.mkdir('feats')
    for name in ('a_0_1', 'a_1_end', 'b', 'c'):
        np.save(f'feats/{name}.npy', np.ones((2, 3), np.float32))
    sources = open_sources(folder / 'feats')
    wanted = {Wanted('a', '_0_1'): Place('t'), Wanted('a', '_1_end'): Place('t')}
    found = sources.find({**wanted, Wanted('b'): Place('t')}, Problems('t'))
    assert sources.others(iter(found.values())) == ['c.npy']


# -- names that look like something else -------------------------------------------------------


@pytest.mark.parametrize(
    'name',
    ['10:30.mp4', '2024-01-01T12:30:00.mp4', 'http:a.mp4', 'async:ok.mp4', 'C:clip.mov',
     'a:b/c.mp4', 'concat:a.mp4|b.mp4', 'pipe:0.mp4', 'a?b=1#c.mp4'],
)  # fmt: skip
def test_a_colon_is_a_letter(folder, name):
    files(name)
    for typed in (name, name.rpartition('.')[0], f'./{name}'):
        (video,) = build(typed).videos
        assert (video['video_id'], video['path']) == (name.rpartition('.')[0], f'v/{name}')
    os.chdir('v')
    (video,) = build(name, videos='.').videos
    assert video['path'] == name


@pytest.fixture
def said():
    """What the log writes to a file in UTF-8."""
    lines = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage().encode('utf-8').decode())

    handler = Keep()
    MMLogger.get_current_instance().addHandler(handler)
    yield lines
    MMLogger.get_current_instance().removeHandler(handler)


@pytest.mark.parametrize(
    'raw, shown',
    [
        (b'caf\xe9.mp4', 'caf\\xe9.mp4'),
        (b'\xff\xfe.mkv', '\\xff\\xfe.mkv'),
        ('ж.mov'.encode('cp1251'), '\\xe6.mov'),
    ],
)
def test_a_name_that_is_no_utf8_is_one_line(folder, said, raw, shown):
    files('a.mp4')
    open(b'v/' + raw, 'w').close()
    build('a')
    assert said[0] == (
        't.csv, all: 1 videos, 1 texts, 1 pairs, captions a video 1; 1 files of v that no row '
        f'names: {shown}.'
    )
    with pytest.raises(FileNotFoundError) as error:
        build('gone')
    assert str(error.value).encode()
    (found,) = (
        open_sources(folder / 'v')
        .find({Wanted(os.fsdecode(raw)): Place('t.csv')}, Problems('t.csv'))
        .values()
    )
    assert found.video_id == shown.rpartition('.')[0] and os.path.exists(found.path)
