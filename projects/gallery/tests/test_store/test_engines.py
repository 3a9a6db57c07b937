"""A folder and a server of Qdrant against brute force in float64."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from mmvtr.arrays import Debiaser
from mmvtr.functional import dbsn
from mmvtr.storage import FolderInUse
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.qdrant import QdrantStore

pytestmark = pytest.mark.filterwarnings('ignore:Local mode performs exact')
DIM = 20  # no multiple of what vectors are padded to
NEEDS = dict(faiss='faiss', qdrant='qdrant_client')
ENGINES = list(NEEDS)
CLIENTS = {}


def units(count, seed, around=0.0):
    x = np.random.default_rng(seed).normal(size=(count, DIM)) + around
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


GALLERY, QUERIES, BANK = units(300, 1), units(12, 2, around=0.4), units(80, 3, around=0.4)
NAMES = [f"clip'{i}" for i in range(300)]  # a quote, as file names may have


@pytest.fixture(params=ENGINES)
def engine(request):
    pytest.importorskip(NEEDS[request.param], reason='the engine is an extra')
    return request.param


def created(folder, engine, **options):
    """A new store; of Qdrant in its embedded mode, in memory."""
    if engine != 'qdrant':
        return create_store(folder, DIM, **options)
    from qdrant_client import QdrantClient

    client = CLIENTS.setdefault(folder, QdrantClient(':memory:'))
    return QdrantStore.create('clips', DIM, client=client, **options)


def opened(folder, engine, **options):
    if engine != 'qdrant':
        return open_store(folder, **options)
    return QdrantStore.open('clips', client=CLIENTS[folder], **options)


def filled(folder, engine, count=300, **options):
    store = created(folder, engine, model='0123', **options)
    store.add(
        NAMES[:count],
        torch.from_numpy(GALLERY[:count]),
        paths=[f'{i}.mp4' for i in range(count)],
        starts=[i / 2 for i in range(count)],
        metadata=dict(split=['train', 'test', None] * (count // 3), views=list(range(count))),
    )
    return store


def biases_by_hand(bank, gallery):
    """Sinkhorn-Knopp as NCL's Fig. 4 writes it, T = .05, four iterations."""
    kernel = np.exp(bank.astype(float) @ gallery.astype(float).T / 0.05)
    alpha = np.ones(len(bank))
    for _ in range(4):
        alpha = 1 / len(bank) / (kernel @ (1 / len(gallery) / (alpha @ kernel)))
    biases = -0.05 * np.log(alpha / alpha.sum() @ kernel)
    return biases - biases.mean()


def assert_best(hits, scores, names, k):
    """The k best of float64 scores [Q, N]; near ties in any order."""
    place = {name: i for i, name in enumerate(names)}
    assert len(hits) == len(scores)
    for row, found in zip(scores, hits):
        best = np.sort(row)[::-1][:k]
        assert len(found) == len({hit.item.id for hit in found}) == len(best)
        np.testing.assert_allclose([hit.score for hit in found], best, atol=1e-5)
        there = [row[place[hit.item.id]] for hit in found]
        np.testing.assert_allclose(there, best, atol=1e-5)


def test_the_whole_way(tmp_path, engine):
    raw = QUERIES.astype(float) @ GALLERY.astype(float).T
    with filled(tmp_path, engine) as store:
        assert_best(store.search(QUERIES, 7), raw, NAMES, 7)
        store.refit(BANK, temperature=0.05, fewer=True)
        biases = biases_by_hand(BANK, GALLERY)
        assert_best(store.search(QUERIES, 7), raw + biases, NAMES, 7)
        assert_best(store.search(QUERIES, 7, transform=False), raw, NAMES, 7)
        assert [a.item.id for a in store.search(QUERIES[:1], 7)[0]] != [
            a.item.id for a in store.search(QUERIES[:1], 7, transform=False)[0]
        ]
        alone = [store.search(query[None], 7)[0] for query in QUERIES]
        assert alone == store.search(torch.from_numpy(QUERIES), 7)  # of one query as of many
        store.delete(NAMES[:100])
        kept = NAMES[100:]
        assert store.count() == 200 and store.count({'split': 'train'}) == 66
        assert_best(store.search(QUERIES, 500), (raw + biases)[:, 100:], kept, 500)
        late = units(3, 9)
        store.add(['x', 'y', 'z'], late, metadata=dict(views=[1, None, 3], stars=[0.5, 1, None]))
        more = np.log(np.exp(BANK @ late.T / 0.05).mean(0))  # rows stay as they were
        assert np.corrcoef(more, [-store.get([n])[0].bias for n in 'xyz'])[0, 1] > 0.9
        store.persist()
        before = store.search(QUERIES, 9)
    again = opened(tmp_path, engine)
    assert again.engine == engine and again.search(QUERIES, 9) == before
    assert again.model == '0123' and again.count() == 203
    item = again.get(['y', NAMES[150]])
    assert item[0].metadata == dict(split=None, views=None, stars=1.0) and item[0].path is None
    assert item[1].metadata == dict(split='train', views=150, stars=None)
    assert (item[1].path, item[1].start, item[1].end) == ('150.mp4', 75.0, None)
    np.testing.assert_array_equal(item[1].vector, GALLERY[150])
    assert item[1].bias == pytest.approx(biases[150], abs=1e-5) and item[1].added > 1.6e9


def test_biases_are_those_of_a_debiaser(tmp_path, engine):
    fit = dict(transform='inverted_softmax', temperature=0.1)
    with filled(tmp_path, engine) as store:
        store.refit(BANK, **fit, fewer=True)
        expected = Debiaser(**fit).fit(GALLERY, BANK).biases_
        found = np.array([item.bias for item in store.get(NAMES)])
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
        store.refit(transform=None)
        assert store.debiaser is None
        assert {item.bias for item in store.get(NAMES)} == {0.0}
        store.refit(BANK, temperature=0.1, sample=50, fewer=True)  # rows of some, columns of all
        assert len({item.bias for item in store.get(NAMES)}) > 250


@pytest.mark.parametrize(
    'given, expected',
    [
        ({'split': 'train'}, lambda i: i % 3 == 0),
        ({'split': ['train', 'test'], 'views': {'max': 30}}, lambda i: i % 3 < 2 and i <= 30),
        ({'start': {'min': 10, 'max': 11}}, lambda i: i in (20, 21, 22)),
        ({'id': ["clip'5", "clip'7"]}, lambda i: i in (5, 7)),
        ({'path': "x' OR 'a' = 'a"}, lambda i: False),
    ],
)
def test_filters(tmp_path, engine, given, expected):
    with filled(tmp_path, engine) as store:
        store.refit(BANK, temperature=0.05, fewer=True)
        meant = [i for i in range(300) if expected(i)]
        assert store.count(given) == len(meant)
        scores = QUERIES.astype(float) @ GALLERY.astype(float).T + biases_by_hand(BANK, GALLERY)
        hits = store.search(QUERIES[:3], 8, filter=given)
        assert_best(hits, scores[:3, meant], [NAMES[i] for i in meant], 8)


@pytest.fixture(scope='module', params=ENGINES)
def small(request, tmp_path_factory):
    """30 items, which no test changes."""
    pytest.importorskip(NEEDS[request.param], reason='the engine is an extra')
    with filled(tmp_path_factory.mktemp('small'), request.param, count=30) as store:
        yield store


@pytest.mark.parametrize(
    'call, message',
    [
        (lambda s: s.add(['new'], GALLERY[:1, :9]), r'vectors \[N, 20\], not \[1, 9\]'),
        (lambda s: s.add(['new'], GALLERY[:1], model='beef'), 'the model beef, but the store .* 0'),
        (lambda s: s.search(QUERIES, model='beef'), 'the model beef, but the store'),
        (lambda s: s.add(['n', 'n'], GALLERY[:2]), "given twice: item 'n'"),
        (lambda s: s.add(["clip'3"], GALLERY[:1]), 'has item "clip\'3" already'),
        (lambda s: s.add(['n'], GALLERY[:2]), '1 ids, 2 vectors'),
        (lambda s: s.add([''], GALLERY[:1]), "ids: item 0 is '', expected a string of 1 to"),
        (lambda s: s.add(['n'], GALLERY[:1] * np.nan), 'add: vector 0 is not finite'),
        (lambda s: s.add(['n'], [[1.0]]), r'a torch or numpy array of numbers \[N, 20\]'),
        (lambda s: s.add(['n'], GALLERY[:1], starts=['0']), "start: item 0 is '0', expected float"),
        (lambda s: s.add(['n'], GALLERY[:1], paths=[]), 'path: 1 values expected, one per item'),
        (
            lambda s: s.add(['n'], GALLERY[:1], metadata=dict(views=['many'])),
            "views: item 0 is 'many', expected int or None",
        ),
        (
            lambda s: s.add(['n'], GALLERY[:1], metadata={'a b': [1]}),
            "'a b' names a column, expected a letter",
        ),
        (lambda s: s.add(['n'], GALLERY[:1], metadata=dict(bias=[1])), 'the store itself uses'),
        (lambda s: s.delete(["clip'1", 'gone']), "has no item 'gone'"),
        (lambda s: s.get(['gone']), "has no item 'gone'"),
        (lambda s: s.search(QUERIES, 0), 'k must be an integer of 1 or more'),
        (lambda s: s.search(QUERIES[0]), r'not \[20\]'),
        (lambda s: s.search(QUERIES * np.inf), 'search: vector 0 is not finite'),
        (lambda s: s.search(QUERIES, filter={'colour': 1}), "no column 'colour'; there are id, "),
        (lambda s: s.search(QUERIES, filter={'views': 'x'}), "views is of type int, got 'x'"),
        (lambda s: s.search(QUERIES, filter={'split': {'min': 1}}), 'bounds are min and max of a'),
        (lambda s: s.search(QUERIES, filter={'views': []}), '0 values, expected 1 to'),
        (lambda s: s.search(QUERIES, filter='views'), 'values by column expected'),
        (lambda s: s.refit(BANK, temperature=0), 'temperature must be positive, .* not 0'),
        (lambda s: s.refit(BANK[:, :3], temperature=1), r'refit: the store holds vectors \[N, 20'),
        (lambda s: s.refit(BANK, transform='csls', temperature=1), r"csls takes \['neighbours'\]"),
        (lambda s: s.refit(BANK, transform='qb_norm'), "one of .*, not 'qb_norm'"),
        (lambda s: s.refit(temperature=1), 'keeps none of the queries that it has served'),
        (lambda s: s.index(), '30 items are searched'),
        (lambda s: s.index(candidates=0), 'must be 1 or more'),
    ],
)
def test_what_is_refused(small, call, message):
    before = small.search(QUERIES[:1], 30)
    with pytest.raises(ValueError, match=message) as raised:
        call(small)
    assert len(str(raised.value)) < 500
    assert small.search(QUERIES[:1], 30) == before and small.count() == 30


def test_folders_that_cannot_be_opened(tmp_path):
    pytest.importorskip('faiss')
    with pytest.raises(FileNotFoundError, match='holds no store: store.json is missing'):
        open_store(tmp_path / 'gone')
    with create_store(tmp_path, DIM) as store:
        with pytest.raises(ValueError, match='the store is empty'):
            store.search(QUERIES)
        with pytest.raises(ValueError, match='refit: the store is empty'):
            store.refit(BANK, temperature=1)
        with pytest.raises(FolderInUse, match='is in use by process'):
            open_store(tmp_path, write=True)
        with pytest.raises(FolderInUse):
            create_store(tmp_path, DIM)
    with pytest.raises(FileExistsError, match='already holds a store'):
        create_store(tmp_path, DIM)
    reader = open_store(tmp_path)
    with pytest.raises(PermissionError, match='opened for reading'):
        reader.add(['a'], GALLERY[:1])
    said = json.loads((tmp_path / 'store.json').read_text())
    (tmp_path / 'store.json').write_text(json.dumps(dict(said, format=4)))
    with pytest.raises(RuntimeError, match='store.json is of format 4, expected 3'):
        open_store(tmp_path)
    (tmp_path / 'store.json').write_text('{"format": 3')
    with pytest.raises(RuntimeError, match='store.json is damaged'):
        open_store(tmp_path)


def test_a_reader_sees_what_a_writer_has_done(tmp_path):
    pytest.importorskip('faiss')
    with filled(tmp_path, 'faiss', count=30) as store:
        reader = open_store(tmp_path)
        assert reader.count() == 30 and reader.debiaser is None
        store.add(['new'], GALLERY[40:41])
        assert reader.count() == 31 and reader.get(['new'])[0].bias == 0
        files = {f.name: f.stat().st_mtime_ns for f in tmp_path.glob('items-*')}
        store.refit(BANK, temperature=0.05, fewer=True)
        assert files == {  # no byte of a vector is written anew
            f.name: f.stat().st_mtime_ns for f in tmp_path.glob('items-*')
        }
        assert reader.search(QUERIES, 9) == store.search(QUERIES, 9)
        assert reader.get(['new'])[0].bias != 0 and reader.debiaser.options_['temperature'] == 0.05
        store.delete(['new'])
        assert reader.count() == 30
        assert len([*tmp_path.glob('biases-*')]) == len([*tmp_path.glob('normaliser-*')]) == 1


@pytest.mark.parametrize('form', ['l2', 'rerank', 'hnsw'])
def test_an_index_that_looks_everywhere_is_exact(tmp_path, form):
    pytest.importorskip('faiss')
    gallery = GALLERY[:260]
    with filled(tmp_path, 'faiss', count=258) as store:
        store.refit(BANK, temperature=0.05, fewer=True)
        store.index(form, partitions=4, probes=4, candidates=300)
        store.add(['a', 'b'], gallery[258:])
        names = NAMES[:258] + ['a', 'b']
        biases = np.array([item.bias for item in store.get(names)])
        scores = QUERIES.astype(float) @ gallery.astype(float).T
        for transform in (True, False):
            hits = store.search(QUERIES, 9, transform=transform)
            assert_best(hits, scores + transform * biases, names, 9)
        store.delete(names[:50])
        hits = store.search(QUERIES, 5, filter={'views': {'min': 60}})
        assert_best(hits, (scores + biases)[:, 60:258], names[60:258], 5)


def test_an_index_by_l2_refuses_vectors_of_several_norms(tmp_path):
    pytest.importorskip('qdrant_client')
    with filled(tmp_path, 'qdrant', geometry='inner_product') as store:
        store.index()
        with pytest.raises(ValueError, match='norms in the store .* go from 1 to 2: search it'):
            store.add(['long'], 2 * GALLERY[:1])
        store.add(['new'], GALLERY[:1])
        assert store.count() == 301


def test_without_an_engine_one_line_says_what_to_install(tmp_path):
    code = """
import sys
sys.modules.update(dict.fromkeys(['faiss', 'qdrant_client']))
from mmvtr_gallery.store import create_store
for where in ('.', 'http://host:1/x'):
    try:
        create_store(where, 3)
    except ImportError as error:
        print(error)
"""
    run = dict(cwd=tmp_path, env=dict(os.environ))  # with the paths of children.py
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, **run)
    extras = re.findall(
        r"^a store .* pip install -e 'projects/gallery\[(\w+)\]'$", done.stdout, re.MULTILINE
    )
    assert extras == ['index', 'qdrant'], done.stderr


def test_dbsn_is_kept_for_later_items(tmp_path, engine):
    """Biases of the items are those of the function, and of later ones, too, by its rows."""
    seen = units(50, 4, around=0.4)
    bank, gallery = torch.from_numpy(BANK).double(), torch.from_numpy(GALLERY).double()
    own = bank @ torch.from_numpy(seen).double().T
    known = torch.arange(300.0)[None].double()
    expected = (dbsn(known, bank @ gallery.T, bank_gallery=own, temperature=0.05) - known)[0]
    expected = expected - expected.mean()
    with filled(tmp_path, engine) as store:
        with pytest.raises(ValueError, match='dbsn also reads items seen before'):
            store.refit(BANK, transform='dbsn', temperature=0.05, fewer=True)
        with pytest.raises(ValueError, match='sinkhorn reads no items seen before'):
            store.refit(BANK, items=seen, temperature=0.05, fewer=True)
        with pytest.raises(ValueError, match=r'holds vectors \[N, 20\], not \[50, 3\]'):
            store.refit(BANK, items=seen[:, :3], transform='dbsn', temperature=0.05, fewer=True)
        store.refit(BANK, items=seen, transform='dbsn', temperature=0.05, fewer=True)
        scores = QUERIES.astype(float) @ GALLERY.astype(float).T + expected.numpy()
        assert_best(store.search(QUERIES, 7), scores, NAMES, 7)
        assert store.last_refit['transform'] == 'dbsn' and store.last_refit['iterations'] == 10
        columns = store.table(['bias', 'vector', 'id'], filter=dict(id=NAMES[3:9]))[1]
        rows = [NAMES.index(name) for name in columns['id']]
        np.testing.assert_allclose(columns['vector'], GALLERY[rows], atol=1e-6)
        np.testing.assert_allclose(columns['bias'], expected[rows], atol=1e-5)
        store.add(['copy'], GALLERY[7:8])
        assert store.get(['copy'])[0].bias == pytest.approx(expected[7].item(), abs=1e-5)
        store.refit(BANK, items=seen[:9], temperature=0.05, fewer=True)  # the same transform
        assert store.last_refit['transform'] == 'dbsn'
        assert store.get(['copy'])[0].bias != pytest.approx(expected[7].item(), abs=1e-5)
        store.undo()
        assert store.get(['copy'])[0].bias == pytest.approx(expected[7].item(), abs=1e-5)
        # Other queries, and the items that the last refit has kept.
        store.refit(BANK[20:], items=seen, temperature=0.05, fewer=True)
        other = [item.bias for item in store.get(NAMES)]
        store.undo()
        store.persist()
        np.testing.assert_array_equal(opened(tmp_path, engine).debiaser.bank_.items, seen)
        store.refit(BANK[20:], temperature=0.05, fewer=True)
        assert [item.bias for item in store.get(NAMES)] == pytest.approx(other, abs=1e-5)
        store.refit(BANK, transform='sinkhorn', temperature=0.05, iterations=4, fewer=True)
        first = store.get(NAMES[:1])[0].bias
        assert first == pytest.approx(biases_by_hand(BANK, GALLERY)[0], abs=2e-3)
        store.persist()
        with pytest.raises(ValueError, match='dbsn .* and the gallery keeps none'):
            store.refit(BANK, transform='dbsn', fewer=True)


def test_the_best_item_of_each_value_of_a_column(tmp_path, engine):
    raw = QUERIES.astype(float) @ GALLERY.astype(float).T
    with created(tmp_path, engine) as store:
        files = [f'{i % 7}.mp4' for i in range(300)]
        files[5:40:7] = [None] * 5
        store.add(NAMES, GALLERY, paths=files, metadata=dict(of=[i % 140 for i in range(300)]))
        for row, hits in zip(raw, store.search(QUERIES, 9, one_per='path')):
            best = {file: max(row[i] for i in range(300) if files[i] == file) for file in files[:7]}
            best.pop(None, None), best.setdefault('5.mp4', max(row[i] for i in range(40, 300, 7)))
            assert [hit.item.path for hit in hits] == sorted(best, key=best.get, reverse=True)
            np.testing.assert_allclose(
                [x.score for x in hits], sorted(best.values())[::-1], atol=1e-5
            )
        options = dict(one_per='of', filter={'of': {'max': 99}})
        for row, hits in zip(raw, store.search(QUERIES, 120, **options)):
            best = [max(row[i] for i in range(n, 300, 140)) for n in range(100)]
            np.testing.assert_allclose([x.score for x in hits], sorted(best)[::-1], atol=1e-5)
        with pytest.raises(ValueError, match="no column 'file'"):
            store.search(QUERIES, one_per='file')


@pytest.mark.parametrize('first', [-0.5, 0.6])
def test_a_winner_outside_of_the_first_candidates(tmp_path, engine, monkeypatch, first):
    """Best, or next to the nearest, is the last by raw score; also after an add of a low bias."""
    raw = np.array([0.95, *np.linspace(0.5, 0.45, 298), 0.2])
    biases = np.array([first, *np.linspace(-0.5, -0.4, 298), 0.95])
    vectors = np.zeros((300, DIM), np.float32)
    vectors[:, 0], vectors[:, 1] = raw, np.sqrt(1 - raw**2)
    given, query = dict(zip(map(bytes, vectors), biases)), np.eye(1, DIM, dtype=np.float32)

    def fixed(self, rows):
        return torch.tensor([given.get(bytes(row), -0.6) for row in rows]).float()

    with created(tmp_path, engine) as store, monkeypatch.context() as patch:
        store.add(NAMES, vectors)
        patch.setattr(Debiaser, 'biases_of', fixed)
        store.refit(units(20, 5), temperature=0.05, fewer=True)
        assert_best(store.search(query, 3), (raw + biases)[None], NAMES, 3)
        store.add(['late'], -query)
        assert_best(store.search(query, 3), (raw + biases)[None], NAMES, 3)
        assert NAMES[-1] in [hit.item.id for hit in store.search(query, 2)[0]]
