"""Feature stores: BigFile against a reader of its bytes, hdf5 over processes, what is refused."""

import copy
import io
import os
import pickle
import struct

import h5py
import numpy as np
import pytest
from torch.utils.data import DataLoader

from mmvtr.datasets import BrokenVideoError, LoadFeatures
from mmvtr.datasets.folders import file_of, is_file_name, missing_files
from mmvtr.datasets.videos.feature_stores import BigFile, Hdf5File, NpyFolder, open_store

#: Rows of the videos lie apart, out of order, and one belongs to nobody.
ROWS = ['b_0', 'a_0', 'nobody_0', 'a_2', 'a_1']
VIDEO_ROWS = dict(a=[1, 4, 3], b=[0])


@pytest.fixture
def features():
    return np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


@pytest.fixture
def bigfile(tmp_path, features):
    folder = tmp_path / 'i3d'
    folder.mkdir()
    (folder / 'shape.txt').write_text('5 3\n')
    (folder / 'id.txt').write_text(' '.join(ROWS) + '\n')
    (folder / 'video2frames.txt').write_text(
        "{'a': ['a_0', 'a_1', 'a_2'], 'b': ['b_0'], 'none': []}"
    )
    (folder / 'feature.bin').write_bytes(struct.pack('<15f', *features.flatten().tolist()))
    return folder


def test_bigfile(bigfile, features):
    load = LoadFeatures(str(bigfile))
    load.check([dict(video_id='a'), dict(video_id='b')])
    for video, rows in VIDEO_ROWS.items():
        found = load.transform(dict(video_id=video))['features']
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, features[rows])
    copied = pickle.loads(pickle.dumps(load))
    np.testing.assert_array_equal(
        copied.transform(dict(video_id='b'))['features'], features[VIDEO_ROWS['b']]
    )


def test_bigfile_beside_another_store(bigfile, features, tmp_path):
    (tmp_path / 'npy').mkdir()
    np.save(tmp_path / 'npy/a.npy', np.ones((3, 2)))
    load = LoadFeatures([str(bigfile), str(tmp_path / 'npy')])
    found = load.transform(dict(video_id='a'))['features']
    np.testing.assert_array_equal(found, np.c_[features[VIDEO_ROWS['a']], np.ones((3, 2))])


@pytest.mark.parametrize(
    'literal',
    [
        '{"a": ["a_0", "a_1", "a_2"], "b": ["b_0"]}',
        "{'a': ['a_0', 'a_1', 'a_2',],\n 'b': [\"b_0\"], }  # python, but no json",
    ],
)
def test_other_spellings_of_the_dict(bigfile, features, literal):
    (bigfile / 'video2frames.txt').write_text(literal)
    np.testing.assert_array_equal(BigFile(bigfile).read('a'), features[VIDEO_ROWS['a']])


def test_a_video_without_rows(bigfile):
    with pytest.raises(BrokenVideoError, match=r"'none': expected .F, D. .* found \(0, 3"):
        LoadFeatures(str(bigfile)).transform(dict(video_id='none'))


def test_videos_that_the_bigfile_lacks(bigfile):
    with pytest.raises(
        KeyError, match=r"i3d/video2frames.txt: no features of 1 of 2 videos, e.g. \['lost'\]"
    ):
        LoadFeatures(str(bigfile)).check([dict(video_id='a'), dict(video_id='lost')])


@pytest.mark.parametrize(
    'name, content, message',
    [
        ('shape.txt', '5', r'shape.txt: expected two numbers, rows and width, found \[.5.\]'),
        ('shape.txt', '5 4', r'feature.bin has 60 bytes, but 5 rows of 4 float32 .* are 80'),
        ('id.txt', 'a_0 a_1', r'id.txt has 2 names for 5 rows'),
        ('video2frames.txt', "{'a': ['a_9']}", r"id.txt lacks 1 rows .* e.g. \['a_9'\]"),
        ('video2frames.txt', "{'a': 'a_0'}", r"video2frames.txt: 'a': expected a list of strings"),
        ('video2frames.txt', "['a']", 'video2frames.txt: expected an object .* found ..a'),
        ('video2frames.txt', "{'a': open('x')}", 'video2frames.txt: not a python dict'),
        ('video2frames.txt', "{'a': [", 'video2frames.txt: not a python dict'),
    ],
)
def test_a_bigfile_that_does_not_fit(bigfile, name, content, message):
    (bigfile / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        LoadFeatures(str(bigfile)).check([dict(video_id='a')])


def test_nothing_of_a_dict_is_run(bigfile, tmp_path):
    target = tmp_path / 'made'
    (bigfile / 'video2frames.txt').write_text(f"{{'a': [open({str(target)!r}, 'w').name]}}")
    with pytest.raises(ValueError, match='not a python dict'):
        BigFile(bigfile).check(['a'], 'videos')
    assert not target.exists()


def test_a_missing_part_is_named(bigfile):
    (bigfile / 'feature.bin').unlink()
    with pytest.raises(FileNotFoundError, match='feature.bin'):
        LoadFeatures(str(bigfile)).check([dict(video_id='a')])


@pytest.mark.parametrize(
    'array',
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float16).reshape(2, 3)),
        np.arange(6, dtype='>f8').reshape(3, 2),
        np.zeros((0, 4)),
        np.array([[1.0], [np.nan]]),
    ],
)
@pytest.mark.parametrize('version', [(1, 0), (2, 0)])
def test_npy_files_are_read_as_numpy_reads_them(tmp_path, array, version):
    with open(tmp_path / 'a.npy', 'wb') as file:
        np.lib.format.write_array(file, array, version)
    found, expected = NpyFolder(tmp_path).load('a'), np.load(tmp_path / 'a.npy')
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype.newbyteorder('=') and found.flags.writeable


@pytest.mark.parametrize(
    'content', [b'', b'text', np.lib.format.MAGIC_PREFIX, 'cut', 'header', 'object']
)
def test_damaged_npy_files_are_named(tmp_path, content):
    path = tmp_path / 'a.npy'
    np.save(path, np.ones((2, 3), object if content == 'object' else np.float32))
    if content != 'object':
        whole = path.read_bytes()
        path.write_bytes(dict(cut=whole[:-4], header=whole[:40]).get(content, content))
    with pytest.raises(ValueError, match="features of 'a': "):
        NpyFolder(tmp_path).read('a')


@pytest.mark.parametrize('arrays', [{}, dict(x=np.ones((2, 3))), dict(x=np.ones(2), y=np.ones(2))])
def test_npz_under_the_name_of_an_npy(tmp_path, arrays):
    with open(tmp_path / 'a.npy', 'wb') as file:
        np.savez(file, **arrays)
    with pytest.raises(ValueError, match="a.npy: features of 'a': .*is an npz file, expected what"):
        NpyFolder(tmp_path).read('a')


@pytest.mark.parametrize(
    'array', [np.array([['a']]), np.ones((2, 3), complex), np.ones((2, 3), 'M8[s]')]
)
def test_arrays_of_no_numbers(tmp_path, array):
    np.save(tmp_path / 'a.npy', array)
    with pytest.raises(
        ValueError, match="a.npy: features of 'a': expected numbers(, found dtype| or str)"
    ):
        NpyFolder(tmp_path).read('a')


BAD_IDS = (
    '',
    ' ',
    '.',
    '..',
    '../a',
    'a/../../b',
    '/a',
    'a//b',
    '..\\a',
    '\\a',
    'a\0',
    'a\n',
    '\u200b',
)


@pytest.mark.parametrize('name', BAD_IDS)
def test_ids_that_would_leave_the_folder(tmp_path, name):
    assert not is_file_name(name)
    np.save(tmp_path / 'a.npy', np.ones((2, 3)))
    (tmp_path / 'store').mkdir()
    for call in (
        lambda: file_of(tmp_path / 'store', name, '.npy'),
        lambda: LoadFeatures(str(tmp_path / 'store')).check([dict(video_id=name)]),
        lambda: NpyFolder(tmp_path / 'store').read(name),
    ):
        with pytest.raises(ValueError, match='store: an id is not a file name: '):
            call()


def test_ids_of_files(tmp_path):
    for name in (
        'a',
        'a b',
        'a/b',
        '..a',
        'a..',
        'P01_01_0',
        '-4wsuPCjDBc_5_15',
        'u@N0_1.mov',
        'é',
        '一',
    ):
        assert is_file_name(name)
        assert file_of(tmp_path, name, '.npy') == tmp_path / f'{name}.npy'
    assert not is_file_name('x' * 256)


def test_which_store_lies_there(bigfile, tmp_path):
    assert isinstance(open_store(bigfile), BigFile)
    assert isinstance(open_store(tmp_path), NpyFolder)
    assert isinstance(open_store(tmp_path / 'x.h5'), Hdf5File)
    with pytest.raises(FileNotFoundError, match='no such feature file or folder: .*nowhere'):
        open_store(tmp_path / 'nowhere').check(['a'], 'videos')


@pytest.fixture
def hdf5(tmp_path):
    with h5py.File(tmp_path / 'words.hdf5', 'w') as file:
        for i in range(60):
            file[f'v#enc#{i}'] = np.full((2, 3), i, dtype=np.float32)
    return Hdf5File(tmp_path / 'words.hdf5')


class Items:
    def __init__(self, store):
        self.store = store

    def __len__(self):
        return 60

    def __getitem__(self, i):
        return self.store.read(f'v#enc#{i}')


def test_hdf5_is_opened_once_a_process(hdf5, monkeypatch):
    opened = []
    monkeypatch.setattr(h5py, 'File', lambda path, original=h5py.File: (
        opened.append(path) or original(path)
    ))  # fmt: skip
    for i in range(5):
        assert (hdf5.read(f'v#enc#{i}') == i).all()
    assert len(opened) == 1
    assert (copy.deepcopy(hdf5).read('v#enc#7') == 7).all()
    assert len(opened) == 2, 'a copy opens the file for itself'


def test_hdf5_in_workers_after_a_read_in_the_main_process(hdf5):
    assert (hdf5.read('v#enc#3') == 3).all()
    for workers in (0, 2):
        rows = list(DataLoader(Items(hdf5), batch_size=None, num_workers=workers))
        assert [int(row[0, 0]) for row in rows] == list(range(60))
    assert (hdf5.read('v#enc#4') == 4).all(), 'the main process reads on'


def test_hdf5_groups_and_names_that_it_lacks(tmp_path):
    with h5py.File(tmp_path / 'x.h5', 'w') as file:
        file['group/a'] = np.ones((2, 3))
    store = Hdf5File(tmp_path / 'x.h5')
    assert store.read('group/a').shape == (2, 3)
    for name, message in {
        'group': 'expected an array, found a group',
        'b': 'not in the file',
    }.items():
        with pytest.raises(ValueError, match=f"x.h5: features of '{name}': {message}"):
            store.read(name)


def test_hdf5_that_is_no_hdf5(tmp_path):
    (tmp_path / 'words.hdf5').write_bytes(b'no hdf5')
    with pytest.raises(ValueError, match='words.hdf5: .*file signature'):
        Hdf5File(tmp_path / 'words.hdf5').check(['a'], 'texts')
    with pytest.raises(ValueError, match="words.hdf5: features of 'a'"):
        Hdf5File(tmp_path / 'words.hdf5').read('a')


def test_missing_files(tmp_path):
    (tmp_path / 'a').touch()
    lost = [tmp_path / 'b', tmp_path / 'folder/c']
    assert missing_files([tmp_path / 'a', *lost]) == lost
    assert missing_files([]) == []


def npy(array: np.ndarray, save=np.save) -> bytes:
    file = io.BytesIO()
    save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    'content, reason',
    [
        (npy(np.ones((2, 3)), np.savez), 'is an npz file'),
        (b'PK\x03\x04' + bytes(50), 'is an npz file'),
        (b'', r"it begins with b'', which numpy.save never writes"),
        (npy(np.array([['a', 'b']])), 'expected numbers, found .*<U1'),
        (npy(np.zeros((2, 2), [('x', 'f4')])), 'expected numbers or strings, found .*x'),
        (npy(np.zeros((2, 2), complex)), 'expected numbers, found .*complex128'),
        (npy(np.ones((2, 3))).replace(b'}', b'('), ''),  # a header that no bracket ends
    ],
)
def test_what_is_no_npy_file_of_features(tmp_path, content, reason):
    (tmp_path / 'a.npy').write_bytes(content)
    with pytest.raises(BrokenVideoError, match=f"^{tmp_path}/a.npy: features of 'a'.*{reason}"):
        LoadFeatures(str(tmp_path)).transform(dict(video_id='a'))


def test_a_named_pipe_is_no_npy_file(tmp_path):
    os.mkfifo(tmp_path / 'a.npy')
    load = LoadFeatures(str(tmp_path))
    for name, reason in (('a', 'not a file'), ('b', 'gone')):
        with pytest.raises(
            BrokenVideoError, match=f"features of '{name}': .*{name}.npy is {reason}"
        ):
            load.transform(dict(video_id=name))


def test_damaged_headers_of_npy_files(tmp_path):
    """Whatever bytes they hold, an error in words or an array."""
    data, random = npy(np.ones((2, 3), np.float32)), np.random.default_rng(0)
    load, refused = LoadFeatures(str(tmp_path)), 0
    for _ in range(300):
        mutant = bytearray(data)
        for place in random.integers(0, 128, 4):
            mutant[place] = random.integers(0, 256)
        (tmp_path / 'a.npy').write_bytes(mutant)
        try:
            assert load.transform(dict(video_id='a'))['features'].ndim == 2
        except BrokenVideoError as error:
            assert "features of 'a'" in str(error) and len(str(error)) < 500
            refused += 1
    assert refused > 200


@pytest.mark.parametrize('content', ['group', 'string'])
def test_what_is_no_array_of_a_hdf5_file(tmp_path, content):
    with h5py.File(tmp_path / 'f.h5', 'w') as file:
        if content == 'group':
            file.create_group('a')
        else:
            file['a'] = 'words'
    with pytest.raises(BrokenVideoError, match="f.h5: features of 'a'"):
        LoadFeatures(str(tmp_path / 'f.h5')).transform(dict(video_id='a'))


def write_npy(folder, features):
    (folder / 'npy').mkdir()
    for name, rows in features.items():
        np.save(folder / f'npy/{name}.npy', rows)
    return folder / 'npy', 'b.npy'


def write_hdf5(folder, features):
    with h5py.File(folder / 'x.h5', 'w') as file:
        for name, rows in features.items():
            file[name] = rows
    return folder / 'x.h5', 'x.h5'


def write_bigfile(folder, features):
    (folder / 'big').mkdir()
    names = {name: [f'{name}_{i}' for i in range(len(rows))] for name, rows in features.items()}
    every = np.concatenate([*features.values()])
    (folder / 'big/shape.txt').write_text('{} {}'.format(*every.shape))
    (folder / 'big/id.txt').write_text(' '.join(name for own in names.values() for name in own))
    (folder / 'big/video2frames.txt').write_text(repr(names))
    every.astype('<f4').tofile(folder / 'big/feature.bin')
    return folder / 'big', 'big/feature.bin'


@pytest.mark.parametrize('write', [write_npy, write_hdf5, write_bigfile])
@pytest.mark.parametrize('dtype', ['<f2', '>f2', '<f4', '>f4', '<f8'])
@pytest.mark.parametrize('value, row, column', [(np.nan, 2, 0), (np.inf, 0, 4), (-np.inf, 1, 2)])
def test_what_is_not_finite_is_named_by_file_video_and_row(
    tmp_path, write, dtype, value, row, column
):
    features = {name: np.full((3, 5), k, dtype) for k, name in enumerate('abc')}
    features['b'][row, column] = value
    path, file = write(tmp_path, features)
    said = (
        f"{file}: features of 'b': {value} in row {row}, column {column}: expected finite .1 of 3"
    )
    said = said.replace('finite .1', r'finite numbers \(1')
    load = LoadFeatures(str(path))
    with pytest.raises(BrokenVideoError, match=said):
        load.transform(dict(video_id='b'))
    assert load.transform(dict(video_id='a'))['features'].shape == (3, 5)


def test_what_is_not_finite_as_float32(tmp_path):
    path, _ = write_npy(tmp_path, dict(b=np.array([[1.0], [1e300]])))
    with pytest.raises(ValueError, match=r'1e\+300 in row 1, column 0: expected finite numbers'):
        NpyFolder(path).read('b')


@pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64])
def test_the_largest_and_the_smallest_numbers_and_zeros_are_finite(tmp_path, dtype):
    info = np.finfo(min(dtype, np.float32, key=lambda kind: np.dtype(kind).itemsize))
    rows = np.array([[info.max, info.min], [info.smallest_subnormal, -0.0], [0, 0]], dtype)
    path, _ = write_npy(tmp_path, dict(b=rows))
    np.testing.assert_array_equal(NpyFolder(path).read('b'), rows)


@pytest.mark.parametrize('rows', [1 << 20, 1 << 30])
def test_what_a_hdf5_file_says_of_its_size_is_not_believed(tmp_path, rows):
    with h5py.File(tmp_path / 'x.h5', 'w') as file:
        file.create_dataset('a', (rows, 1024), 'f4', chunks=(1024, 1024), compression='gzip')
    told = f"x.h5: features of 'a': the file is too small for its array of {4096 * rows:,} bytes"
    with pytest.raises(ValueError, match=told):
        Hdf5File(tmp_path / 'x.h5').read('a')
