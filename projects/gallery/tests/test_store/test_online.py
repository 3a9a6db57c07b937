"""The sample of served queries: who is in it, what is kept, and what a refit from it mends."""

import runpy

import numpy as np
import pytest

from children import ROOT
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.online import Reservoir

DIM = 6


def vectors(seed, count):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def numbered(count):
    return np.arange(count, dtype=np.float32)[:, None].repeat(2, axis=1)


def kept(seed, memory, count=300):
    reservoir = Reservoir(2, capacity=30, memory=memory, seed=seed)
    reservoir.offer(numbered(count))
    return reservoir.queries()[:, 0]


def test_all_queries_have_the_same_chance():
    age = np.concatenate([kept(seed, None) for seed in range(60)])
    counts = np.histogram(age, bins=6, range=(0, 300))[0]
    assert counts.sum() == 1800 and abs(counts - 300).max() < 70  # 4 standard deviations


def test_with_a_memory_the_old_are_forgotten():
    age = 299 - np.concatenate([kept(seed, 60) for seed in range(60)])
    # Kept with probability 30 / 60 at first, and lost at one in 60 a query.
    for t in (0, 30, 60, 120):
        expected = 30 * (np.exp(-t / 60) - np.exp(-(t + 30) / 60))
        assert ((t <= age) & (age < t + 30)).sum() / 60 == pytest.approx(expected, abs=1.6)


def test_a_queue_that_was_read_goes_on_alike(tmp_path):
    one, two = (Reservoir(2, capacity=5, memory=9, seed=3) for _ in range(2))
    one.offer(numbered(40))
    two.offer(numbered(40)[:17])
    two.write(tmp_path / 'queue')
    again = Reservoir(2, capacity=5, memory=9, seed=3)
    again.read(tmp_path / 'queue')
    for query in numbered(40)[17:]:
        again.offer(query[None])
    np.testing.assert_array_equal(again.queries(), one.queries())
    assert again.seen == 40 and len(again) == 5
    with pytest.raises(RuntimeError, match=r'is not a queue of queries \[n, 3\]'):
        Reservoir(3, capacity=5).read(tmp_path / 'queue')
    again.forget()
    assert len(again) == again.seen == 0


def test_queries_are_kept_only_where_that_was_asked_for(tmp_path):
    pytest.importorskip('faiss')
    queries = vectors(2, 12)
    with create_store(tmp_path, DIM) as store:
        store.add([str(i) for i in range(20)], vectors(1, 20))
        store.search(queries)
        store.persist()
        assert store.online is None and not [*tmp_path.glob('queue*')]
        store.keep_queries(dict(capacity=8))
        store.search(queries, record=False)
        assert len(store.online) == 0
        store.search(queries)
        assert len(store.online) == 8 and store.online.seen == 12
        kept = store.online.queries()
        assert all((queries == one).all(1).any() for one in kept)
        store.persist()
    reader = open_store(tmp_path)
    reader.search(queries)
    assert reader.online is None  # who may not write keeps nothing
    with open_store(tmp_path, write=True) as store:
        np.testing.assert_array_equal(store.online.queries(), kept)
        store.refit(temperature=0.1)
        assert store.last_refit['online'] and store.last_refit['num_queries'] == 8
        np.testing.assert_array_equal(store.debiaser.bank_.texts.numpy(), kept)
        store.keep_queries(None)
        store.persist()
        assert store.online is None and not [*tmp_path.glob('queue*')]


def test_a_sample_that_was_written_and_is_gone(tmp_path):
    """Who reads does not need it, who would go on from nothing is told; so it is before it is."""
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM) as store:
        store.add(['a', 'b'], vectors(1, 2))
        store.persist()
        store.keep_queries(dict(capacity=8))
    with open_store(tmp_path, write=True) as store:
        store.keep_queries(dict(capacity=8))
        store.persist()
    (path,) = tmp_path.glob('queue*')
    path.unlink()
    assert open_store(tmp_path).count() == 2
    for _ in range(2):  # the lock is free again
        with pytest.raises(RuntimeError, match=f'{path} is missing, .* sample of served queries'):
            open_store(tmp_path, write=True)


def test_a_refit_every_so_many_queries(tmp_path):
    pytest.importorskip('faiss')
    online = dict(capacity=8, refit_every=10)
    with create_store(tmp_path, DIM, online=online) as store:
        store.add([str(i) for i in range(20)], vectors(1, 20))
        store.refit(vectors(3, 9), temperature=0.1, fewer=True)
        before = store.debiaser
        store.search(vectors(4, 9))
        assert store.debiaser is before
        store.search(vectors(5, 1))
        told = dict(store.last_refit, at=0)
        assert told == dict(before_options(), num_queries=8, online=True, items=20, at=0)
        assert store.debiaser is not before


def before_options():
    return dict(transform='sinkhorn', temperature=0.1, iterations=4)


@pytest.mark.parametrize(
    'online, message',
    [
        (dict(capacity=0), 'keeps 1 or more, not 0'),
        (dict(capacity=9, memory=3), 'a memory of 3 queries is below the capacity 9'),
        (dict(size=9), 'capacity, memory, seed and refit_every expected'),
        (dict(capacity=9, refit_every=0), 'refit_every must be 1 or more, not 0'),
    ],
)
def test_queues_that_make_no_sense(tmp_path, online, message):
    with pytest.raises(ValueError, match=message):
        create_store(tmp_path, DIM, online=online)
    assert not [*tmp_path.iterdir()]


def test_a_refit_follows_a_drift(tmp_path):
    """The mix of queries turns over: biases of before harm, those of served queries help again."""
    pytest.importorskip('faiss')
    drifted = runpy.run_path(str(ROOT / 'projects/lab/evidence/speed/store_drift.py'))['drifted']
    rows = drifted(11, tmp_path)
    before, stale, fresh, ideal = (
        rows[name]
        for name in (
            'before, with biases',
            'after the drift, biases of before',
            'after a refit from served queries',
            '(a bank of the new mix alone)',
        )
    )
    raw = rows['after the drift, raw']
    assert before.recall > rows['before, raw'].recall + 0.05
    assert stale.recall < fresh.recall - 0.05 and raw.recall < fresh.recall - 0.05
    assert abs(fresh.recall - ideal.recall) < 0.03 and abs(fresh.recall - before.recall) < 0.05
    assert fresh.skewness < 0.7 * min(stale.skewness, raw.skewness) and fresh.top < stale.top
