"""What is typed to mmvtr search: ids with hyphens, filters, and what is refused at once."""

import runpy
import sys

import numpy as np
import pytest

from children import tool_file
from mmvtr_gallery.store import create_store, open_store

IDS = ['-4wsuPCjDBc_5_15', '--fR2dKt1U_0_10', 'a b', '-lower', 'k']


@pytest.fixture
def store(tmp_path):
    """A gallery of no model: what loads one has gone too far."""
    pytest.importorskip('faiss')
    with create_store(tmp_path / 'store', 4, model='0123') as made:
        made.add(IDS, np.eye(5, 4, dtype=np.float32) + 0.1, metadata=dict(views=[1, 2, 3, 4, 5]))
        made.persist()
    return tmp_path / 'store'


@pytest.fixture
def search(store, monkeypatch, capsys):
    """Runs the tool; returns its status and all that it said."""

    def run(*words):
        monkeypatch.setattr(sys, 'argv', ['search.py', str(store), *words])
        try:
            runpy.run_path(str(tool_file('search.py')), run_name='__main__')
            status, word = 0, ''
        except SystemExit as end:
            status, word = (end.code, '') if isinstance(end.code, int) else (1, end.code)
        printed = capsys.readouterr()
        return status, printed.out + printed.err + word

    return run


@pytest.mark.parametrize('gone', [IDS[:1], IDS[1:2], IDS[:4]])
def test_ids_that_begin_with_a_hyphen(search, store, gone):
    status, said = search(*(f'--delete={name}' for name in gone))
    assert status == 0, said
    with open_store(store) as opened:
        assert opened.count() == len(IDS) - len(gone)
    for name in gone:
        status, said = search(f'--delete={name}')
        assert status == 1 and name in said  # it is there no more


@pytest.mark.parametrize(
    ('words', 'status', 'said'),
    [
        ([''], 2, 'a text to search for expected, got an empty one'),
        (['a', ' \t'], 2, 'got an empty one'),
        (['a', '--k', '0'], 1, 'k must be 1 or more, not 0'),
        (['a', '--k', 'ten'], 2, "invalid int value: 'ten'"),
        (['a', '-k', '3'], 2, 'unrecognized arguments: -k'),
        (['a', '--filter', 'veiws=3'], 1, "no column 'veiws'"),
        (['a', '--filter', 'views=many'], 1, 'views is of type int'),
        (['a', '--filter', 'views'], 2, 'KEY=VALUE expected'),
        (['--add', 'gone.mp4', '--add=-x.mp4'], 1, 'video files are missing: gone.mp4, -x.mp4'),
        (['--delete', 'k', '--add', 'gone.mp4'], 1, '1 of 1 video files are missing'),
        ([], 2, 'a TEXT to search for'),
        (['-a dog'], 1, 'the config of'),  # all of it was right, but for the model
    ],
)
def test_what_is_refused_before_a_model_is_loaded(search, store, words, status, said):
    found, printed = search(*words)
    line = printed.splitlines()[-1]
    assert found == status and line.startswith('error: ') and said in line
    assert printed.count('error: ') == 1
    with open_store(store) as opened:
        assert opened.count() == len(IDS)
