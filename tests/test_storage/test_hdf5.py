"""hdf5 files are there as a whole or not at all, and keep what they held if asked to."""

import sys

import numpy as np
import pytest

from mmvtr.storage.arrays import load_h5py, name_in_hdf5, new_hdf5, read_array, write_array

h5py = pytest.importorskip('h5py')
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


def names(path):
    with h5py.File(path) as file:
        return sorted(file)


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / 'new' / 'a.h5'
    with new_hdf5(path) as file:
        file['one'] = ROWS
        assert not path.exists()
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file['one'][()], ROWS)
    assert [x.name for x in path.parent.iterdir()] == ['a.h5']


@pytest.mark.parametrize('keep', [False, True])
def test_what_was_there_stays_if_it_is_kept(tmp_path, keep):
    path = tmp_path / 'a.h5'
    for name in ('one', 'two'):
        with new_hdf5(path, keep=keep) as file:
            file[name] = ROWS
    assert names(path) == (['one', 'two'] if keep else ['two'])


@pytest.mark.parametrize('error', [ValueError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path, error):
    path = tmp_path / 'a.h5'
    with new_hdf5(path) as file:
        file['one'] = ROWS
    with pytest.raises(error):
        with new_hdf5(path, keep=True) as file:
            file['two'] = ROWS
            raise error
    assert names(path) == ['one'] and [x.name for x in tmp_path.iterdir()] == ['a.h5']


def test_names_with_a_slash_would_be_groups():
    assert name_in_hdf5('a#1', 'text') == 'a#1'
    with pytest.raises(ValueError, match="video id 'a/b': no slash is possible in hdf5, take npy"):
        name_in_hdf5('a/b', 'video')


def test_without_h5py_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, 'h5py', None)
    with pytest.raises(ImportError, match='a.h5: hdf5 needs `pip install h5py`'):
        load_h5py(tmp_path / 'a.h5')


def test_an_array_on_its_own(tmp_path):
    write_array(tmp_path / 'deep' / 'a.npy', ROWS)
    np.testing.assert_array_equal(read_array(tmp_path / 'deep' / 'a.npy'), ROWS)
    with pytest.raises(OSError):
        write_array(tmp_path / 'deep' / 'a.npy' / 'b.npy', ROWS)
