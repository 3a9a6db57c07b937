"""Folders of the index of older versions, and a new store in the place of an old one."""

import numpy as np
import pytest
import torch

pytest.importorskip('faiss')

from mmvtr.index import GalleryIndex, Normaliser  # noqa: E402
from mmvtr.store import create_store, open_store  # noqa: E402
from mmvtr.store.replacing import replace_store  # noqa: E402

DIM = 5


def vectors(seed, count):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True)).float()


def old_index(folder, normaliser):
    index = GalleryIndex(DIM, normaliser=normaliser, about=dict(weights='0123', transform='x'))
    index.add([f'v{i}' for i in range(30)], vectors(1, 30), paths={'v3': '3.mp4'})
    index.save(folder)
    return index


@pytest.mark.parametrize('debiased', [True, False])
def test_an_old_index_is_read_and_becomes_a_store(tmp_path, debiased):
    normaliser = None
    if debiased:
        fit = dict(transform='sinkhorn', temperature=0.1)
        normaliser = Normaliser.fit(vectors(2, 9), vectors(1, 30), **fit)
    index, queries = old_index(tmp_path, normaliser), vectors(3, 4)
    before = {path.name for path in tmp_path.iterdir()}
    store = open_store(tmp_path)
    expected = index.search(queries, k=6)
    for hits, ids, scores in zip(store.search(queries, 6), expected.ids, expected.scores):
        assert [hit.item.id for hit in hits] == ids
        assert [hit.score for hit in hits] == pytest.approx(scores.tolist(), abs=1e-6)
    assert store.model == '0123' and store.get(['v3'])[0].path == '3.mp4'
    assert {path.name for path in tmp_path.iterdir()} == before  # reading changes nothing
    with open_store(tmp_path, write=True) as store:
        store.add(['new'], vectors(4, 1))
        index.add(['new'], vectors(4, 1))
        store.persist()
    assert not {path.name for path in tmp_path.iterdir()} & before
    again, expected = open_store(tmp_path), index.search(queries, k=31)
    assert [[h.item.id for h in hits] for hits in again.search(queries, 31)] == expected.ids
    assert (again.normaliser is None) != debiased


def test_a_new_store_takes_the_place_of_an_old_one(tmp_path):
    old_index(tmp_path, None)
    (tmp_path / 'bank.pth').write_bytes(b'of somebody else')
    for engine, name in [('faiss', 'a'), ('faiss', 'b')]:
        with replace_store(tmp_path, DIM, engine=engine) as store:
            store.add([name], vectors(1, 1))
            store.persist()
        assert open_store(tmp_path).get([name])[0].id == name and open_store(tmp_path).count() == 1
    with pytest.raises(ValueError, match='at least one'):
        with replace_store(tmp_path, DIM, engine='faiss') as store:
            store.add([], vectors(1, 0))
    assert open_store(tmp_path).get(['b'])
    assert sorted(path.name.split('-')[0] for path in tmp_path.iterdir()) == [
        'bank.pth',
        'biases',
        'items',
        'store.json',
    ]
    create_store(tmp_path / 'other', DIM, engine='faiss').close()
