"""Arrays from npy and npz files: what is read is what was written, and nothing is believed."""

import io
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from mmvtr.storage import array_names, arrays, read_array, read_arrays

WRITTEN = [
    np.arange(12, dtype=np.float16).reshape(3, 4),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(4, dtype='>i4'),
    np.array(['dog', 'Ünï', '犬']),
    np.array([b'a', b'bc']),
    np.zeros((0, 5), np.float32),
    np.array(2.5),
    np.eye(3, dtype=bool),
]


@pytest.mark.parametrize('array', WRITTEN, ids=lambda x: f'{x.dtype}{list(x.shape)}')
@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path, array, save):
    np.save(tmp_path / 'x.npy', array)
    save(tmp_path / 'x.npz', one=array, other=array[..., :1] if array.ndim else array)
    assert array_names(tmp_path / 'x.npz') == ['one', 'other']
    for found in (read_array(tmp_path / 'x.npy'), read_arrays(tmp_path / 'x.npz')['one']):
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype.newbyteorder('=') and found.dtype.isnative
    assert read_arrays(tmp_path / 'x.npz', ['other']).keys() == {'other'}


def npy(shape, content=b'', *, dtype='<f4', version=1, more=b''):
    """An npy file that says ``shape`` and holds ``content``."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = (len(text) + len(more)).to_bytes(2 if version == 1 else 4, 'little')
    return b'\x93NUMPY' + bytes([version, 0]) + size + text + more + content


def objects(array):
    file = io.BytesIO()
    np.save(file, np.array(array, dtype=object), allow_pickle=True)
    return file.getvalue()


LIES = [
    (npy((2**40,)), '0 bytes follow its header, expected 4,398,046,511,104 for the shape'),
    (npy((2**40,), version=2), '0 bytes follow its header, expected 4,398,046,511,104'),
    (npy((10**30, 10**30), b'1234'), '4 bytes follow its header'),
    (npy((2, 2), bytes(15)), '15 bytes follow its header, expected 16'),
    (npy((2, 2), bytes(17)), '17 bytes follow its header, expected 16'),
    (npy((-1, 2), bytes(8)), 'its header is damaged: a shape of'),
    (npy((10**12,), dtype='<U0'), 'expected numbers or strings, found'),
    (npy((1,), bytes(8), dtype='<M8[s]'), 'expected numbers or strings, found'),
    (npy((1,), more=b' ' * 20_000), 'its header has 20,'),
    (npy('[' * 5000), 'its header is damaged'),
    (npy((1,), bytes(4), version=3), 'its version is'),
    (b'\x93NUMPY\2\0\xff\xff\xff\xff{', 'its header has 4,294,967,295 bytes'),
    (b'\x93NUMPY', 'its version is'),
    (b'', 'which numpy.save never writes'),
    (b'\0' * 200, 'which numpy.save never writes'),
    (objects(['a', None]), r'python objects, which are not read \(np.array\(x, dtype=str\)'),
]


@pytest.mark.parametrize('content, message', LIES)
def test_a_header_is_not_believed(tmp_path, content, message):
    (tmp_path / 'x.npy').write_bytes(content)
    with pytest.raises(ValueError, match=f'x.npy is not a .npy file .*{message}') as error:
        read_array(tmp_path / 'x.npy')
    assert len(str(error.value)) < 500
    with zipfile.ZipFile(tmp_path / 'x.npz', 'w') as archive:
        archive.writestr('sizes.npy', content)
    with pytest.raises(ValueError, match=f"x.npz is not a .npz file .*array 'sizes': .*{message}"):
        read_arrays(tmp_path / 'x.npz')


def archive_of(path, *members, **how):
    with zipfile.ZipFile(path, 'w', **how) as archive:
        for name, content in members:
            archive.writestr(name, content)


def test_archives_that_are_not_what_numpy_writes(tmp_path):
    good = npy((2,), bytes(8))
    cases = [
        ([('a.npy', good), ('a.npy', good)], {}, "a second array 'a'"),
        ([('a.npy', good)], dict(compression=zipfile.ZIP_LZMA), 'numpy never does'),
        ([('a.npy', good)], dict(compression=zipfile.ZIP_BZIP2), 'numpy never does'),
    ]
    for members, how, message in cases:
        with pytest.warns(UserWarning) if len(members) > 1 else np.errstate():
            archive_of(tmp_path / 'x.npz', *members, **how)
        with pytest.raises(ValueError, match=f'x.npz is not a .npz file.*{message}'):
            read_arrays(tmp_path / 'x.npz')


@pytest.mark.parametrize('damage', [lambda x: x[:-30], lambda x: x[:40], lambda x: b'PK' + x[9:]])
def test_damaged_archives(tmp_path, damage):
    np.savez(tmp_path / 'x.npz', a=np.arange(50.0))
    (tmp_path / 'x.npz').write_bytes(damage((tmp_path / 'x.npz').read_bytes()))
    with pytest.raises(ValueError, match=r'x.npz (is not a .npz file of numbers|cannot be read)'):
        read_arrays(tmp_path / 'x.npz')


@pytest.mark.parametrize('place', [150, 300, 501])
def test_a_flipped_bit_of_an_archive_is_seen(tmp_path, place):
    np.savez(tmp_path / 'x.npz', a=np.arange(50.0))
    content = bytearray((tmp_path / 'x.npz').read_bytes())
    content[place] ^= 4
    (tmp_path / 'x.npz').write_bytes(content)
    with pytest.raises(ValueError, match='x.npz is not a .npz file'):
        read_arrays(tmp_path / 'x.npz')


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path, size = tmp_path / 'bomb.npz', 272 << 20
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open('scores.npy', 'w') as file:
            file.write(npy((1 << 10, size >> 12)))
            for _ in range(size >> 24):
                file.write(bytes(1 << 24))
    assert path.stat().st_size < 2 << 20
    tracemalloc.start()
    with pytest.raises(ValueError, match='unpack to 285,.* more than 200 times as many'):
        read_arrays(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, 'memory', lambda: 1000)
    np.save(tmp_path / 'x.npy', np.zeros(500))
    np.savez(tmp_path / 'x.npz', a=np.zeros(500), b=np.zeros(1))
    with pytest.raises(ValueError, match='4,128 bytes are more than this machine has memory'):
        read_array(tmp_path / 'x.npy')
    with pytest.raises(ValueError, match="unpack to 4,128, which is .* this machine's memory"):
        read_arrays(tmp_path / 'x.npz', ['a'])
    assert read_arrays(tmp_path / 'x.npz', ['b'])['b'] == 0


@pytest.mark.parametrize('read', [read_array, read_arrays, array_names])
def test_what_is_no_file(tmp_path, read):
    with pytest.raises(FileNotFoundError, match='gone does not exist'):
        read(tmp_path / 'gone')
    os.mkfifo(tmp_path / 'pipe')
    for name in ('pipe', ''):
        with pytest.raises(ValueError, match='it is a folder or a pipe'):
            read(tmp_path / name)
