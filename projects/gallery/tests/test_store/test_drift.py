"""A drift of the queries is seen, and none where there is none."""

import numpy as np
import pytest

pytest.importorskip(
    'faiss', reason='a store in memory is an extra: pip install projects/gallery[index]'
)

from mmvtr_gallery.store import create_store  # noqa: E402
from mmvtr_gallery.store.drift import drift_of  # noqa: E402

DIM, ITEMS = 64, 400


def unit(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


class World:
    """Items with more or less of each of two styles, and queries that are asked in one of them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.styles = np.linalg.qr(self.rng.normal(size=(DIM, 2)))[0].T
        self.own = unit(self.rng.normal(size=(ITEMS, DIM)))
        self.items = unit(self.own + self.rng.exponential(0.4, size=(ITEMS, 2)) @ self.styles)

    def queries(self, count, style):
        noise = unit(self.rng.normal(size=(count, DIM)))
        own = self.own[self.rng.integers(ITEMS, size=count)]
        return unit(own + 0.7 * noise + 1.0 * self.styles[style])


def filled(folder, world, **online):
    store = create_store(folder, DIM, online=dict(capacity=300, **online))
    store.add([str(i) for i in range(ITEMS)], world.items)
    return store


@pytest.mark.parametrize('seed', range(3))
def test_seen_and_gone_after_a_refit(tmp_path, seed):
    world = World(seed)
    with filled(tmp_path, world, memory=300) as store:
        assert drift_of(store) is None  # no biases
        store.refit(world.queries(400, 0), temperature=0.05)
        assert drift_of(store) is None  # nothing served
        store.search(world.queries(300, 0), 1)
        quiet = drift_of(store)
        assert not quiet.refit and quiet.queries == 256 and str(quiet).endswith('no drift')
        seen = store.online.seen
        store.search(world.queries(2000, 1), 1)
        loud = drift_of(store)
        assert loud.refit and loud.now > 2 * quiet.now and 'refit from' in str(loud)
        assert store.online.seen == seen + 2000  # looking is no query
        store.refit()
        assert not drift_of(store).refit


def test_nothing_is_said_of_little(tmp_path):
    world = World(0)
    with filled(tmp_path, world) as store:
        store.refit(world.queries(400, 0), temperature=0.05)
        store.search(world.queries(99, 1), 1)
        assert drift_of(store) is None
        store.search(world.queries(1, 1), 1)
        assert drift_of(store) is not None
        names = [str(i) for i in range(301)]
        store.quarantine(names)
        assert drift_of(store) is None
        store.release(names)
        assert drift_of(store) is not None
        store.delete(names)
        assert drift_of(store) is None
