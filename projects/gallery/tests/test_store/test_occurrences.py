"""Tables of items, and how often they are found: by hand, on every engine."""

import numpy as np
import pytest

from stores import NEEDS, empty_store

pytestmark = pytest.mark.filterwarnings('ignore:Local mode performs exact')
DIM, COUNT = 8, 70


def units(seed, count, around=0.0):
    x = np.random.default_rng(seed).normal(size=(count, DIM)) + around
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


ITEMS, BANK = units(1, COUNT), units(2, 100, around=0.7)
ITEMS[0] = BANK.mean(0) / np.linalg.norm(BANK.mean(0))  # near all queries
ITEMS[1] = -ITEMS[0]
NAMES = [f"it's {i}" for i in range(COUNT)]


@pytest.fixture(params=NEEDS)
def store(request, tmp_path):
    with empty_store(request.param, tmp_path, DIM) as found:
        views = [None if i % 7 == 0 else i for i in range(COUNT)]
        found.add(NAMES, ITEMS, metadata=dict(views=views, even=[i % 2 == 0 for i in range(COUNT)]))
        found.persist()
        yield found


def by_hand(biases, k):
    scores = BANK.astype(float) @ ITEMS.astype(float).T + biases
    best = np.argsort(-scores, axis=1)[:, :k]
    last = np.sort(scores, axis=1)[:, -k]
    return np.bincount(best.ravel(), minlength=COUNT), (last[:, None] - scores).min(0)


def ordered(store, columns, **options):
    _, found = store.table(['id', *columns], **options)
    rows = {name: row for row, name in enumerate(found['id'])}
    return [[found[x][rows[name]] for x in columns] for name in NAMES if name in rows]


def test_a_table(store):
    views = [None if i % 7 == 0 else i for i in range(COUNT)]
    assert ordered(store, ['views', 'bias']) == [[x, 0.0] for x in views]
    few = ordered(store, ['views'], filter=dict(even=True, views=dict(min=30)))
    assert few == [[x] for x in views if x is not None and x >= 30 and x % 2 == 0]
    assert store.table(['id'], filter=dict(views=-1)) == ([], dict(id=[]))
    with pytest.raises(ValueError, match="no column 'colour'"):
        store.table(['colour'])


def test_how_often_items_are_found(store):
    assert store.occurrences() is None  # no query is known
    version = store.version
    store.refit(BANK, temperature=0.1)
    assert store.version > version
    biases = np.array([item.bias for item in store.get(NAMES)])
    said = store.occurrences()
    assert (said.source, said.queries, said.k) == ('bank', 100, 10)
    rows = [said.ids.index(name) for name in NAMES]
    for counts, (expected, _) in (
        (said.found, by_hand(biases, 10)),
        (said.raw, by_hand(0.0, 10)),
    ):
        np.testing.assert_array_equal(counts[rows], expected)
    np.testing.assert_allclose(said.behind[rows], by_hand(biases, 10)[1], atol=1e-5)
    assert said.found.sum() == 1000 and said.expected == pytest.approx(1000 / 70)
    raw, debiased = said.skews()
    assert raw > debiased and said.raw[rows[0]] > said.found[rows[0]]
    assert said.raw[rows[1]] < said.found[rows[1]]
    assert store.occurrences(k=3).found.sum() == 300


def test_what_is_in_quarantine_takes_no_place(store):
    store.refit(BANK, temperature=0.1)
    most = store.occurrences().ids[int(store.occurrences().raw.argmax())]
    store.quarantine([most])
    said = store.occurrences()
    biases = np.array([item.bias for item in store.get(NAMES)])
    biases[NAMES.index(most)] = -99.0
    rows = [said.ids.index(name) for name in NAMES if name != most]
    expected = np.delete(by_hand(biases, 10)[0], NAMES.index(most))
    assert most not in said.ids and len(said.ids) == COUNT - 1
    np.testing.assert_array_equal(said.found[rows], expected)
    store.quarantine(NAMES)
    assert store.occurrences() is None


def test_the_sample_of_served_queries_counts_where_there_is_no_bank(store):
    store.keep_queries(dict(capacity=8))
    assert store.occurrences() is None
    store.record(BANK[:8])
    said = store.occurrences(k=1)
    assert (said.source, said.queries) == ('served', 8) and said.found.sum() == 8
    store.delete(NAMES[2:])
    assert store.occurrences().k == 1 and len(store.occurrences().ids) == 2
    store.delete(NAMES[:2])
    assert store.occurrences() is None
