"""What a store ranks by is noted in it: cosines of vectors of any length, or inner products."""

import json
import logging

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr.storage import read_tensors, write_tensors
from mmvtr.storage.digests import ROOM, write_with_digest
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.moments import MomentStore
from mmvtr_gallery.store.qdrant import QdrantStore
from stores import NEEDS, empty_store

pytestmark = pytest.mark.filterwarnings('ignore:Local mode performs exact')
DIM = 8
RANDOM = np.random.default_rng(0)
VIDEOS = (RANDOM.normal(size=(50, DIM)) * RANDOM.lognormal(size=(50, 1))).astype('f4')
TEXTS, BANK, SEEN = ((RANDOM.normal(size=(n, DIM)) + 0.4).astype('f4') for n in (9, 60, 40))
NAMES = [str(i) for i in range(50)]


@pytest.fixture(params=NEEDS)
def make(request, tmp_path):
    """Makes a store of 50 items with an engine."""

    def made(**how):
        store = empty_store(request.param, tmp_path / 'store', DIM, **how)
        store.add(NAMES, VIDEOS)
        return store

    return made


def again(store):
    """The same store, as another process opens it."""
    if store.engine == 'qdrant':
        return QdrantStore.open(store.name, client=store.client, write=True)
    store.persist()
    store.close()
    return open_store(store.folder, write=True)


def found(store, **options):
    hits = store.search(TEXTS, 5, **options)
    ids, scores = ([[one(hit) for hit in x] for x in hits] for one in (lambda h: h.item.id, score))
    return ids, np.array(scores)


def score(hit):
    return hit.score


@pytest.mark.parametrize('geometry', ['cosine', 'inner_product'])
def test_a_store_ranks_as_retrieve(make, geometry):
    with make(**{} if geometry == 'cosine' else dict(geometry=geometry)) as store:
        for bank in (None, BANK):
            if bank is not None:
                store.refit(bank, temperature=0.2)
            transform = None if bank is None else 'sinkhorn'
            how = {} if bank is None else dict(temperature=0.2)
            given = (TEXTS, VIDEOS, bank, transform, 5, NAMES)
            expected = mmvtr.retrieve(*given, geometry=geometry, **how)
            ids, scores = found(store)
            assert ids == expected.ids.tolist()
            np.testing.assert_allclose(scores, expected.debiased, atol=2e-5)
        lengths = np.linalg.norm([item.vector for item in store.get(NAMES)], axis=1)
        assert (np.abs(lengths - 1).max() < 1e-6) == (geometry == 'cosine')
        with again(store) as other:
            assert other.geometry == geometry and found(other)[0] == ids
            assert other.lengths_matter is None


def test_what_has_no_direction_is_refused(make):
    with make() as store:
        zeros = np.zeros((3, DIM), np.float32)
        zeros[:2] = VIDEOS[:2]
        for call, what in (
            (lambda: store.add(['a', 'b', 'c'], zeros), 'add'),
            (lambda: store.search(zeros), 'search'),
            (lambda: store.refit(zeros, fewer=True), 'refit'),
            (lambda: store.record(zeros), 'record'),
        ):
            with pytest.raises(ValueError, match=f'{what}: vector 2 is all zeros'):
                call()
        assert store.count() == 50
        store.add(['tiny'], 1e-30 * VIDEOS[:1])  # has one
        np.testing.assert_allclose(*(store.get([x])[0].vector for x in ('tiny', '0')), atol=1e-6)


def test_an_unknown_geometry(tmp_path):
    with pytest.raises(ValueError, match="geometry must be one of .*, not 'l2'"):
        create_store(tmp_path, DIM, geometry='l2')


# -- stores of before ----------------------------------------------------------------------------


def as_before(folder):
    """A folder as stores without a geometry have written it: row biases, and nothing of a mean."""
    said = json.loads((folder / 'store.json').read_text())
    del said['geometry'], said['sha256']
    refit = said['refit']
    refit.setdefault('iterations', 0)
    refit['strictness'] = refit.pop('marginal_penalty', 1.0)
    path = folder / said['normaliser']
    held = read_tensors(path, kind='normaliser')
    shift = json.loads(bytes(held['facts'].numpy()))['fitted']['shift']
    old = dict(queries=held['texts'], row_biases=held['rows'])
    for name in ('temperature', 'strictness'):
        old[name] = torch.tensor(refit[name], dtype=torch.float64)
    if 'bank_items' in held:
        old['items'] = held['bank_items']
    write_tensors(old, path)
    text = json.dumps({'sha256': ROOM, **said})
    with open(folder / 'store.json', 'wb') as file:
        write_with_digest(text.encode(), file)
    return shift


@pytest.mark.parametrize('name', ['sinkhorn', 'unbalanced_sinkhorn', 'inverted_softmax', 'dbsn'])
def test_a_store_of_before_is_read_as_what_it_was(name, tmp_path, monkeypatch):
    pytest.importorskip('faiss')
    items = SEEN if name == 'dbsn' else None
    with create_store(tmp_path, DIM, geometry='inner_product') as store:
        store.add(NAMES, VIDEOS)
        how = {'marginal_penalty': 0.6} if name == 'unbalanced_sinkhorn' else {}
        store.refit(BANK, transform=name, items=items, temperature=0.3, **how)
        expected, biases = found(store), store.debiaser.biases_of(VIDEOS)
        store.persist()
    shift = as_before(tmp_path)
    said = []
    monkeypatch.setattr('mmvtr_gallery.store.opening.print_log', lambda text, *_: said.append(text))
    with open_store(tmp_path, write=True) as store:
        assert len(said) == 1 and 'ranks by inner products of vectors of lengths from' in said[0]
        assert store.geometry == 'inner_product' and store.debiaser.transform_ == name
        ids, scores = found(store)
        assert ids == expected[0]
        np.testing.assert_allclose(scores, expected[1], atol=1e-5)
        np.testing.assert_allclose(store.debiaser.biases_of(VIDEOS), biases + shift, atol=1e-5)
        store.refit(BANK[:55])  # the same transform, and the items seen before that it kept
        assert store.debiaser.transform_ == name and store.last_refit['temperature'] == 0.3
        assert how.items() <= store.last_refit.items()
        store.persist()
    assert open_store(tmp_path).geometry == 'inner_product'


def test_on_qdrant_too():
    from_client = pytest.importorskip('qdrant_client').QdrantClient(':memory:')
    store = QdrantStore.create('x', DIM, client=from_client, geometry='inner_product')
    store.add(NAMES, VIDEOS)
    store.refit(BANK, transform='dbsn', items=SEEN, temperature=0.3)
    expected = found(store)
    state = dict(store._now())
    del state['geometry']
    state['refit'] = dict(state['refit'], strictness=1.0)
    store._write(state)
    from_client.delete_payload('x.bank', ['facts'], points=_all())
    other = QdrantStore.open('x', client=from_client, write=True)
    assert other.geometry == 'inner_product' and 'inner products' in other.lengths_matter
    assert other.debiaser.transform_ == 'dbsn' and found(other)[0] == expected[0]
    assert len(other.debiaser.bank_.items) == 40
    other.refit(BANK[:55])
    assert other.last_refit['transform'] == 'dbsn'


def _all():
    from qdrant_client import models

    return models.FilterSelector(filter=models.Filter(must=[]))


# -- what does not fit -----------------------------------------------------------------------------


@pytest.fixture
def filled(tmp_path):
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM) as store:
        store.add(NAMES, VIDEOS)
        store.refit(BANK, transform='csls')
        store.persist()
        yield store


def test_files_of_another_debiaser_are_refused(filled, tmp_path):
    filled.close()
    path = next(tmp_path.glob('normaliser-*'))
    held = read_tensors(path, kind='normaliser')

    def rewritten(change):
        facts = json.loads(bytes(held['facts'].numpy()))
        change(facts)
        raw = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        write_tensors(dict(held, facts=torch.from_numpy(raw.copy())), path)

    for change, words in (
        (
            lambda x: x.update(geometry='inner_product'),
            'has geometry inner_product, but the store has cosine',
        ),
        (lambda x: x.update(version=3), "is of version '3', this reads 2"),
        (lambda x: x['fitted'].update(transform='os'), 'names an unknown transform'),
        (lambda x: x['fitted']['options'].update(neighbours='many'), 'neighbours must be 1 or'),
        (lambda x: x['content'].update(texts=[1, 1]), 'do not belong to one Debiaser'),
        (lambda x: x.pop('why'), 'is not a Debiaser of version 2'),
    ):
        rewritten(change)
        with pytest.raises(RuntimeError, match=words):
            open_store(tmp_path)
    write_tensors(dict(held, texts=held['texts'][:, :3].contiguous()), path)
    with pytest.raises(RuntimeError, match='do not belong to one Debiaser'):
        open_store(tmp_path)


def test_windows_of_another_geometry_are_refused(filled, tmp_path):
    create_store(tmp_path / 'moments', DIM, geometry='inner_product').close()
    with pytest.raises(ValueError, match='is of another'):
        MomentStore.open(filled, tmp_path)


def test_nothing_to_rank_is_raw_and_is_said(filled, tmp_path, caplog, monkeypatch):
    said = []
    monkeypatch.setattr('mmvtr_gallery.store.refits.print_log', lambda text, *_: said.append(text))
    with create_store(tmp_path / 'alike', DIM) as store:
        store.add(NAMES[:3], np.repeat(VIDEOS[:1], 3, 0))
        store.refit(BANK)
        assert store.debiaser is None and store.last_refit['transform'] is None
        assert 'score alike with the bank: nothing to rank' in said[-1]
        store.delete(NAMES[1:3])
        store.refit(BANK)
        assert 'raw: there is one item' in said[-1]
        store.add(NAMES[1:3], VIDEOS[1:3])
        store.refit(BANK)
        assert store.debiaser.transform_ == 'sinkhorn'


def test_a_debiaser_without_its_gallery(filled):
    kept = filled.debiaser
    assert kept and len(kept) == 0 and kept.transform_ == 'csls'
    with pytest.raises(ValueError, match='no gallery'):
        kept.search(TEXTS)
    with pytest.raises(ValueError, match='videos have width 3, the videos 8'):
        kept.biases_of(VIDEOS[:, :3])
    with pytest.raises(ValueError, match='row 0 is all zeros'):
        kept.biases_of(0 * VIDEOS)
    logging.getLogger().debug(repr(kept))
