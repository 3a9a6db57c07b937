"""Pickles of plain data and arrays are read as they are; nothing that they name is run."""

import collections
import pickle

import numpy as np
import pytest

from mmvtr.datasets.annotation_values import Place
from mmvtr.datasets.pickles import read_pickle, text_of

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
CONTENT = dict(
    rows=VALUES,
    half=VALUES.astype(np.float16),
    columns=np.asfortranarray(VALUES),
    part=np.arange(24).reshape(4, 6)[::2, 1::2],
    turned=np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    flags=VALUES > 0,
    other_order=VALUES.astype('>f8'),
    bytes=np.arange(256, dtype=np.uint8),
    empty=np.zeros((0, 5), np.float32),
    single=np.array(3.5),
    number=np.float64('nan'),
    count=np.int64(-7),
    missing=float('nan'),
    words=['a', ('é', None), 2.5, {'k': True}],
)


def same(found, expected) -> bool:
    if isinstance(expected, np.generic):
        expected = expected.item()
    if isinstance(expected, np.ndarray):
        return found.dtype.newbyteorder('=') == expected.dtype.newbyteorder('=') and np.array_equal(
            found, expected
        )
    return found == expected or expected != expected and found != found


def write(path, content, **kwargs):
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, **kwargs))
    return path


@pytest.mark.parametrize('protocol', PROTOCOLS)
@pytest.mark.parametrize('core', ['numpy.core', 'numpy._core'])
def test_what_is_written_is_read(tmp_path, protocol, core):
    raw = pickle.dumps(CONTENT, protocol=protocol)
    here = b'numpy._core' if b'numpy._core' in raw else b'numpy.core'
    if protocol < 4:  # later ones have the lengths of names
        raw = raw.replace(here, core.encode())
    found = read_pickle(write(tmp_path / 'a.pickle', raw), 'features', arrays=True)
    assert found.keys() == CONTENT.keys()
    wrong = [name for name in CONTENT if not same(found[name], CONTENT[name])]
    assert not wrong and type(found['count']) is int


def python_2(value: bytes, key: bytes = b'v\xc3\xa9') -> bytes:
    """What python 2.7 and its numpy dump at protocol 2 of {key: float32 [2, 2]}."""

    def text(content: bytes) -> bytes:
        return b'U' + bytes([len(content)]) + content

    return b''.join(
        [
            *(b'\x80\x02}q\x00', text(key), b'q\x01cnumpy.core.multiarray\n_reconstruct\nq\x02'),
            *(b'cnumpy\nndarray\nq\x03K\x00\x85q\x04', text(b'b'), b'q\x05\x87q\x06Rq\x07(K\x01'),
            *(b'K\x02K\x02\x86q\x08cnumpy\ndtype\nq\t', text(b'f4'), b'q\nK\x00K\x01\x87q\x0bR'),
            *(b'q\x0c(K\x03', text(b'<'), b'q\rNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0eb'),
            *(b'\x89', text(value), b'q\x0ftq\x10bs.'),
        ]
    )


def test_a_pickle_of_python_2(tmp_path):
    values = np.array([[1.5, -2], [3e-9, 200]], '<f4')  # bytes that are no UTF-8
    path = write(tmp_path / 'a.pickle', python_2(values.tobytes()))
    (key, found), *rest = read_pickle(path, 'features', arrays=True).items()
    assert text_of(key, Place(path)) == 'vé' and not rest
    assert found.dtype == np.float32 and found.tolist() == values.tolist()
    # The bytes of a latin-1 string of python 2.
    assert text_of(b'v\xe9', Place(path)) == 'vé' and text_of('vé', Place(path)) == 'vé'


class Harm:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def swapped(old: bytes, new: bytes, content=None) -> bytes:
    """A pickle of an array of which some bytes are others."""
    raw = pickle.dumps(dict(a=VALUES[:, :2]) if content is None else content, protocol=2)
    assert old in raw
    return raw.replace(old, new)


GLOBAL = b'\x80\x02cnumpy\nndarray\n'
REFUSED = {
    'open': (lambda to: pickle.dumps(dict(a=Harm(open, str(to), 'w'))), 'asks for .*open'),
    'eval': (lambda to: pickle.dumps([VALUES, Harm(eval, f'open({str(to)!r}, "w")')]), 'eval'),
    'numpy.save': (lambda to: pickle.dumps(Harm(np.save, str(to), 1)), 'asks for numpy.save'),
    'a class': (lambda to: pickle.dumps(collections.OrderedDict(a=1)), 'collections.OrderedDict'),
    'objects': (lambda to: pickle.dumps(np.array([{}, 'a'], object)), 'array without numbers .O8'),
    'strings': (lambda to: pickle.dumps(np.array(['a', 'b'])), 'array without numbers .U1'),
    'complex': (lambda to: pickle.dumps(np.ones(2, complex)), 'array without numbers .c16'),
    'records': (lambda to: pickle.dumps(np.zeros(2, 'i4,f4')), 'array without numbers .V8'),
    'other class': (lambda to: pickle.dumps(np.ma.ones(2)), 'asks for numpy.ma'),
    'memmap': (lambda to: swapped(b'cnumpy\nndarray', b'cnumpy\nmemmap'), 'numpy.memmap'),
    'too few bytes': (lambda to: swapped(b'K\x02K\x02\x86', b'K\x02K\x03\x86'), '24'),
    'negative': (
        lambda to: swapped(b'K\x02K\x02\x86', b'J\xff\xff\xff\xffK\x02\x86'),
        'array without a shape',
    ),
    'ndarray called': (lambda to: GLOBAL + b'K\x02\x85R.', 'it calls numpy.ndarray'),
    'a changed function': (lambda to: GLOBAL + b'}X\x01\x00\x00\x00aK\x01sb.', 'changes a func'),
    'cut off': (lambda to: pickle.dumps(CONTENT)[:-30], '.'),
    'empty': (lambda to: b'', 'Ran out of input'),
    'text': (lambda to: b'not a pickle', '.'),
}


@pytest.mark.parametrize('name', REFUSED)
def test_nothing_else_is_read_and_nothing_is_run(tmp_path, name):
    make, message = REFUSED[name]
    path = write(tmp_path / 'bad.pickle', make(tmp_path / 'made_by_the_pickle'))
    with pytest.raises(ValueError, match=f'bad.pickle: not a pickle of features: .*{message}') as e:
        read_pickle(path, 'features', arrays=True)
    assert [path] == list(tmp_path.iterdir()) and len(str(e.value)) <= 500


def test_plain_data_have_no_arrays(tmp_path):
    with pytest.raises(ValueError, match='not a pickle of captions: it asks for numpy'):
        read_pickle(write(tmp_path / 'a', VALUES), 'captions')
    assert read_pickle(write(tmp_path / 'a', ['é']), 'captions') == ['é']
    with pytest.raises(FileNotFoundError):
        read_pickle(tmp_path / 'none', 'captions')
