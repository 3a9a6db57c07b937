"""A gallery of files with odd names and links, and queries that are longer than what is read."""

import json
import logging
import os
import shutil
import unicodedata

import pytest
from mmengine.logging import MMLogger

TEXT = 'red dog'


@pytest.fixture
def said():
    """What the log writes to a file in UTF-8."""
    lines = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage().encode('utf-8').decode())

    handler = Keep(logging.WARNING)
    MMLogger.get_current_instance().addHandler(handler)
    yield lines
    MMLogger.get_current_instance().removeHandler(handler)


def test_a_folder_with_links_and_names_that_are_no_utf8(make, tmp_path, said):
    clips = tmp_path / 'v'
    clips.mkdir()
    for name in (b'a.mp4', b'caf\xe9.mp4', b'\xff.mp4', '\u00e4 10:30.mp4'.encode()):
        shutil.copy('clips/a.mp4', os.fsencode(clips) + b'/' + name)
    os.symlink('.', clips / 'latest')
    os.symlink('..', clips / 'up')
    os.symlink('a.mp4', clips / 'best.mp4')
    find = make(gallery=clips)
    found = find(TEXT, out_dir=tmp_path / 'out')['predictions']
    names = {hit['id'] for hit in found[0]['hits']}
    assert names == {'a', 'caf\\xe9', '\\xff', 'ä 10:30'}
    assert all(os.path.isfile(hit['item']) for hit in found[0]['hits'])
    written = json.loads((tmp_path / 'out/predictions.json').read_text(encoding='utf-8'))
    assert {hit['item'] for hit in written[0]['hits']} == {hit['item'] for hit in found[0]['hits']}


def test_broken_files_whose_names_are_no_utf8(make, tmp_path, said):
    (tmp_path / 'v').mkdir()
    shutil.copy('clips/a.mp4', tmp_path / 'v/a.mp4')
    for name in (b'caf\xe9.mp4', b'\xfe.mp4', b'\xc3.mkv'):
        open(os.fsencode(tmp_path) + b'/v/' + name, 'w').close()
    find = make(gallery=tmp_path / 'v', on_broken='skip')
    assert [hit['id'] for hit in find(TEXT)['predictions'][0]['hits']] == ['a']
    assert '3 broken videos are left out' in said[-1]
    for name in ('caf\\xe9', '\\xfe', '\\xc3'):
        assert f'{name}: ' in said[-1]


@pytest.mark.parametrize('name', ['café.mp4', 'Größe.mkv', 'が.mp4'])
def test_files_in_either_spelling(make, tmp_path, name):
    shutil.copy('clips/a.mp4', tmp_path / unicodedata.normalize('NFD', name))
    find = make(gallery=[tmp_path / name, 'clips/b.mp4'])
    assert len(find(TEXT)['predictions'][0]['hits']) == 2


@pytest.mark.parametrize('count', [1, 2, 3])
def test_queries_that_are_cut_are_counted(make, said, count):
    find = make('uatvr_planted', gallery='clips')
    assert said == []
    find([*['red ' * 40] * count, TEXT])
    assert len(said) == 1 and said[0].startswith(
        f'the given texts: {count} of {count + 1} captions'
    )
    assert ' longer than 32 tokens and ' in said[0] and said[0].endswith('(the longest has 42).')
    find([TEXT])
    assert len(said) == 1
