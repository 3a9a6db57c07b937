"""Equal scores have one order, the lowest row first: for any k, any batch, in every engine."""

import ast

import numpy as np
import pytest
import torch

import mmvtr
from children import ROOT
from mmvtr.functional.similarities.tiles import as_tiles, top_of_rows
from mmvtr.functional.transforms.transform_table import OF_BANK

RANDOM = np.random.default_rng(0)
#: Whole numbers, whose products are exact: equal vectors have equal scores wherever they lie.
ONCE = RANDOM.integers(-3, 4, size=(24, 16)).astype('f4')
VIDEOS = ONCE[RANDOM.integers(0, 24, 400)]
TEXTS = RANDOM.integers(-3, 4, size=(30, 16)).astype('f4')
BANK = RANDOM.integers(-3, 4, size=(60, 16)).astype('f4')
EXPECTED = np.argsort(-(TEXTS @ VIDEOS.T), axis=1, kind='stable')
LENGTHS = (1, 2, 5, 10, 40, 399, 400, 1000)


def test_the_lists_begin_alike_for_any_k():
    one = mmvtr.fit(VIDEOS, geometry='inner_product')
    for k in LENGTHS:
        assert np.array_equal(one.search(TEXTS, k).ids, EXPECTED[:, :k]), k


def test_any_batch_has_them():
    one = mmvtr.fit(VIDEOS, geometry='inner_product')
    for start, stop in ((0, 1), (3, 7), (0, 29)):
        found = one.search(TEXTS[start:stop], 7).ids
        assert np.array_equal(found, EXPECTED[start:stop, :7])


@pytest.mark.parametrize('name', OF_BANK)
def test_debiased_lists_begin_alike_for_any_k(name):
    """Equal vectors have equal biases."""
    options = dict(hedged_scaling=dict(first=-0.3, strength=0.6)).get(name, {})
    one = mmvtr.fit(VIDEOS, (BANK, BANK), name, geometry='inner_product', **options)
    whole = one.search(TEXTS, 400)
    order = np.lexsort((whole.ids, -whole.debiased))
    assert np.array_equal(order, np.tile(np.arange(400), (30, 1)))
    for k in LENGTHS[:5]:
        assert np.array_equal(one.search(TEXTS, k).ids, whole.ids[:, :k])


@pytest.mark.parametrize('entries', [30, 300, 5000])
def test_tiles_of_any_width(entries):
    scores = torch.tensor(TEXTS @ VIDEOS.T)
    tiles = as_tiles(scores, entries=entries)
    for k in LENGTHS:
        values, places = tiles.best(k)
        assert places.tolist() == EXPECTED[:, :k].tolist()
        assert torch.equal(values, scores.gather(1, places))
        assert top_of_rows(scores, k)[1].tolist() == EXPECTED[:, :k].tolist()


@pytest.mark.parametrize('value', [0.0, -1.0, torch.inf, -torch.inf])
def test_a_constant_row(value):
    assert top_of_rows(torch.full((3, 50), value), 4)[1].tolist() == [[0, 1, 2, 3]] * 3


def of_faiss(folder):
    pytest.importorskip('faiss')
    from mmvtr_gallery.store import create_store

    return create_store(folder / 's', 16, geometry='inner_product')


def of_qdrant(folder):
    client = pytest.importorskip('qdrant_client').QdrantClient(':memory:')
    from mmvtr_gallery.store.qdrant import QdrantStore

    return QdrantStore.create('x', 16, client=client, geometry='inner_product')


@pytest.mark.filterwarnings('ignore:Local mode performs exact')
@pytest.mark.parametrize('engine', [of_faiss, pytest.param(of_qdrant, marks=pytest.mark.nightly)])
def test_stores(engine, tmp_path):
    pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')
    with engine(tmp_path) as store:
        names = [str(i) for i in range(400)]
        store.add(names[:150], VIDEOS[:150])
        store.add(names[150:], VIDEOS[150:])
        for k in LENGTHS[:5] if engine is of_qdrant else LENGTHS:
            for some in (slice(0, 1), slice(0, 30)):
                hits = store.search(TEXTS[some], k)
                assert [[int(x.item.id) for x in row] for row in hits] == EXPECTED[
                    some, :k
                ].tolist()
        store.refit(BANK, transform='nnn', fewer=True)
        whole = [[x.item.id for x in row] for row in store.search(TEXTS, 400)]
        for k in np.array([1, 5, 40]):  # numpy's integers, too
            hits = store.search(TEXTS, k)
            assert [[x.item.id for x in row] for row in hits] == [row[:k] for row in whole]


#: Files in which topk's order of equal scores is not seen: only values, or a loss.
VALUES_ONLY = {
    'mmvtr/functional/similarities/tiles.py': 1,  # top_of_rows itself
    'mmvtr/functional/transforms/score_transforms.py': 2,
    'mmvtr/functional/transforms/dual_banks.py': 1,  # a mean over the nearest
    'mmvtr/functional/metrics/length_bias.py': 1,
    'mmvtr/functional/metrics/hubness.py': 1,
    'mmvtr/evaluation/soft_positive.py': 1,
    'mmvtr/functional/losses/neighbours.py': 1,  # of a training step
    'mmvtr/arrays/judged_lists.py': 1,
    'mmvtr/arrays/shift.py': 1,  # figures of the values
}


def test_who_else_takes_the_best():
    """A list that a user sees is made by top_of_rows; another topk says here why it may."""
    found = {}
    for path in (
        p for x in ('mmvtr', 'projects/gallery/mmvtr_gallery') for p in (ROOT / x).rglob('*.py')
    ):
        source = path.read_text()
        calls = [
            node
            for node in ast.walk(ast.parse(source if 'topk' in source else ''))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == 'topk'
        ]
        if calls:
            found[str(path.relative_to(ROOT))] = len(calls)
    assert found == VALUES_ONLY
