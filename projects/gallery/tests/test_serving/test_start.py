"""What is said when the service starts, or at the request that finds it out."""

from __future__ import annotations

import embedding_stub
import numpy as np
import pytest
import torch

from children import ROOT
from gallery_service import Gallery, served, try_to_take
from mmvtr import apis
from mmvtr.storage import write_tensors
from mmvtr.utils import load_config
from mmvtr_gallery.remote import ServerUnknown
from mmvtr_gallery.store import create_store, open_store
from services import kept

SEEN = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]], np.float32)


@pytest.fixture
def dbsn(folder, tmp_path):
    """A gallery whose biases are of DBSN."""
    place = kept(folder, tmp_path / 'store')
    with open_store(place, write=True) as store:
        options = dict(transform='dbsn', items=SEEN, temperature=0.1, fewer=True)
        store.refit(store.debiaser.bank_.texts, **options)
        store.persist()
    return place


def test_a_refit_of_dbsn_names_nothing(dbsn, folder):
    gallery = Gallery.open(dbsn, library=folder)
    assert try_to_take(gallery) is None and gallery.notes() == []
    with served(gallery) as client:
        texts = ['you', 'hello', 'q', 'abc', 'xyz', 'no', 'yes']
        status, _, said = client.change('/refit', texts=texts)
        assert (status, said['transform'], said['num_queries']) == (200, 'dbsn', 7)
        with open_store(dbsn) as store:
            np.testing.assert_array_equal(store.debiaser.bank_.items, SEEN)
            bank = store.debiaser.bank_.texts
            biases = [item.bias for item in store.get(list('abcdefg'))]
    with open_store(dbsn, write=True) as store:  # as if they had been given
        store.refit(bank, items=SEEN, transform='dbsn', temperature=0.1, fewer=True)
        given = [item.bias for item in store.get(list('abcdefg'))]
    assert biases == pytest.approx(given, abs=1e-6)


def test_a_gallery_of_before_that_keeps_no_items(dbsn, folder):
    with open_store(dbsn) as store:
        kept = store.debiaser
        (path,) = dbsn.glob(f'normaliser-{store.version}.safetensors')
    rows = dict(queries=kept.bank_.texts, row_biases=kept._state.fitted.rows)
    numbers = dict(temperature=torch.tensor(0.1), strictness=torch.tensor(1.0))
    write_tensors({**rows, **numbers}, path)
    gallery = Gallery.open(dbsn, library=folder)
    assert try_to_take(gallery) is None
    (note,) = gallery.notes()
    assert note.startswith("a re-fit must name a transform, such as 'sinkhorn'")
    with served(gallery) as client:
        status, _, said = client.change('/refit', texts=['a'], fewer=True)
        assert status == 422 and 'the gallery keeps none' in said['error']
        status, _, said = client.change('/refit', texts=['a'], fewer=True, transform='sinkhorn')
        assert (status, said['transform']) == (200, 'sinkhorn') and gallery.notes() == []


def test_an_embedding_server_that_nobody_has_named(tmp_path, monkeypatch):
    """At the start; and where the name goes later, as the service's own fault."""
    cfg = load_config(ROOT / 'configs/zeroshot/zeroshot_own_remote.py', dict(frames=2))
    place, variable = tmp_path / 'store', 'MMVTR_EMBEDDINGS_URL'
    with embedding_stub.running() as stub:
        monkeypatch.setenv(variable, stub.url)
        model, cfg = apis.load_retriever(cfg, None)
        dim = embedding_stub.DIM
        with create_store(place, dim, model=apis.fingerprint(model)) as store:
            store.add(['a', 'b'], np.eye(dim, dtype=np.float32)[:2])
            store.persist()
        cfg.dump(place / 'config.json')
        gallery = Gallery.open(place)
        with served(gallery) as client:
            assert len(client.search(text='a dog', k=2)['hits']) == 2
            monkeypatch.delenv(variable)
            status, said = client.error('POST', '/search', dict(text='a cat', k=2))
            assert status == 503 and f'{variable}=http://HOST:PORT/v1' in said
            assert len(client.search(like='a', k=2)['hits']) == 2
        with pytest.raises(ServerUnknown, match=variable):
            Gallery.open(place)
