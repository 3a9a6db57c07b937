"""Stores in LanceDB's files, as they once were written: refused with a way out, and converted."""

import json

import numpy as np
import pytest

from mmvtr.arrays import Debiaser
from mmvtr.storage import file_digest
from mmvtr.storage.digests import ROOM, write_with_digest
from mmvtr_gallery.store import open_store
from mmvtr_gallery.store.fits import write_fit
from mmvtr_gallery.store.from_lance import convert

DIM, COUNT = 6, 12


def vectors(seed, count):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    """Items 1 to 11 of 12 in padded rows, out of order, a commit of which nothing knows behind."""
    lancedb, pa = pytest.importorskip('lancedb'), pytest.importorskip('pyarrow')
    pytest.importorskip('faiss')
    wide = np.zeros((COUNT, 16), np.float32)
    wide[:, :DIM] = vectors(1, COUNT)
    floats = dict.fromkeys(('start', 'end', 'sigma'), pa.nulls(COUNT, pa.float64()))
    table = pa.table(
        dict(
            number=pa.array(range(COUNT)),
            vector=pa.FixedSizeListArray.from_arrays(pa.array(wide.ravel()), 16),
            id=[f"v'{i}" for i in range(COUNT)],
            path=[None, *(f'{i}.mp4' for i in range(1, COUNT))],
            added=[1.5 + i for i in range(COUNT)],
            views=pa.array([None, *range(1, COUNT)], pa.int64()),
            **floats,
        )
    )
    made = lancedb.connect(str(tmp_path)).create_table(
        'items', table.take([*range(5, 12), *range(5)])
    )
    made.delete("id = 'v''0'")
    valid = made.version
    made.delete("id = 'v''1'")  # by a process that was killed
    fitted = Debiaser('sinkhorn', temperature=0.1).fit(vectors(1, COUNT), vectors(2, 30))
    write_fit(fitted.without_gallery(), tmp_path / 'normaliser-3.safetensors')
    fitted.biases_.numpy().astype('<f4').tofile(tmp_path / 'biases-3.f32')
    said = dict(engine='lance', dim=DIM, model='m', about=dict(a=1), commit=3, items=valid)
    said.update(next=COUNT, count=COUNT - 1, types=dict(views='int'), biases='biases-3.f32')
    said.update(normaliser='normaliser-3.safetensors', highest=1.0, online=None, index=None)
    said.update(refit=dict(transform='sinkhorn', temperature=0.1), norms=[1.0, 1.0])
    said.update(table='items.lance', geometry='cosine', quarantined=["v'2"])
    names = [path.relative_to(tmp_path) for path in (tmp_path / 'items.lance/data').iterdir()]
    said['digests'] = {str(name): file_digest(tmp_path / name) for name in names}
    with open(tmp_path / 'store.json', 'wb') as file:
        write_with_digest(json.dumps(dict(sha256=ROOM, format=2, **said)).encode(), file)
    return tmp_path, fitted


def test_converted(folder):
    place, fitted = folder
    with pytest.raises(RuntimeError, match=f"LanceDB's .*from_lance {place} .*--replace"):
        open_store(place)
    assert convert(place) == f'{place}: 11 items are converted'
    assert not (place / 'items.lance').exists() and 'nothing to do' in convert(place)
    store = open_store(place)
    items = store.get([f"v'{i}" for i in range(1, COUNT)])
    np.testing.assert_array_equal([x.vector for x in items], vectors(1, COUNT)[1:])
    np.testing.assert_allclose([x.bias for x in items], fitted.biases_[1:], atol=1e-6)
    assert [(x.path, x.added, x.metadata) for x in items[:2]] == [
        ('1.mp4', 2.5, dict(views=1)),
        ('2.mp4', 3.5, dict(views=2)),
    ]
    assert store.count() == 11 and store.quarantined == ["v'2"] and store.model == 'm'
    assert store.geometry == 'cosine' and store.last_refit['temperature'] == 0.1
    assert store.debiaser.transform_ == 'sinkhorn' and store.last_change is None


def test_a_damaged_one_stays(folder):
    place, _ = folder
    [data] = (place / 'items.lance/data').iterdir()
    whole = data.read_bytes()
    data.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(RuntimeError, match=f'{data} is damaged'):
        convert(place)
    data.write_bytes(whole)
    assert '11 items' in convert(place)
