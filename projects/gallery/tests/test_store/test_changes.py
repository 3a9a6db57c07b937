"""Changes as a whole or not at all; refits that tell what they move, and are taken back."""

import numpy as np
import pytest

from mmvtr.arrays import Debiaser
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.moved import Moves
from mmvtr_gallery.store.qdrant import QdrantStore
from stores import NEEDS, empty_store, of_other_process

pytestmark = pytest.mark.filterwarnings('ignore:Local mode performs exact')
DIM = 6
NAMES = [f'v{i}' for i in range(20)]


def vectors(seed, count):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(params=NEEDS)
def store(request, tmp_path):
    with empty_store(request.param, tmp_path, DIM) as found:
        found.add(NAMES, vectors(1, 20))
        found.persist()
        yield found


def seen(store):
    """All that a search tells, by id."""
    hits = store.search(vectors(9, 1), 99)[0]
    return {hit.item.id: (hit.score, hit.raw, hit.item.bias) for hit in hits}


# -- what goes and what comes ------------------------------------------------------------------


def test_what_goes_and_comes_is_one_change(store):
    with store.kept():
        store.add(['new', 'v3', 'more'], vectors(2, 3), removing=['v3', 'v4'])
    for one in (store, of_other_process(store)):
        assert set(seen(one)) == {*NAMES, 'new', 'more'} - {'v4'} and one.count() == 21
        np.testing.assert_array_equal(one.get(['v3'])[0].vector, vectors(2, 3)[1])
    with store.kept():  # once more under the same name: the key of before is free again
        store.add(['v3'], vectors(3, 1), removing=['v3'])
    np.testing.assert_array_equal(store.get(['v3'])[0].vector, vectors(3, 1)[0])
    assert store.count() == 21
    store.delete(['v3'])
    assert 'v3' not in seen(store) and store.count() == 20


@pytest.mark.parametrize(
    'ids, given, removing, words',
    [
        (['v5'], vectors(2, 1), ['v4'], 'has item'),
        (['new'], vectors(2, 1), ['v4', 'nobody'], 'has no item'),
        (['new'], vectors(2, 2), ['v4'], '1 ids, 2 vectors'),
        (['new'], vectors(2, 1) * np.nan, ['v4'], 'not finite'),
        (['new'], vectors(2, 1), ['v4', 'v4'], 'given twice: item'),
        (['v3', 'v5'], vectors(2, 2), ['v3'], 'has item'),
    ],
)
def test_what_is_refused_removes_nothing(store, ids, given, removing, words):
    before = seen(store)
    with pytest.raises(ValueError, match=words):
        with store.kept():
            store.add(ids, given, removing=removing)
    assert seen(store) == before == seen(of_other_process(store))


@pytest.mark.parametrize(
    'change',
    [
        lambda s: s.add(['new'], vectors(2, 1)),
        lambda s: s.add(['v3'], vectors(2, 1), removing=['v3']),
        lambda s: s.delete(['v1', 'v2']),
        lambda s: s.refit(vectors(3, 25)),
        lambda s: s.undo(),
    ],
)
@pytest.mark.parametrize('what', ['append', 'manifest'])
def test_a_disk_that_turns_read_only(tmp_path, monkeypatch, what, change):
    """Neither on disk nor in memory anything has changed, and a second try works."""
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM) as store:
        store.add(NAMES, vectors(1, 20))
        store.refit(vectors(2, 30))
        store.persist()
        store.delete(['v9'])
        store.persist()
        before = seen(store)

        def broken(*args, **kwargs):
            raise OSError(30, 'Read-only file system')

        with monkeypatch.context() as patch:
            if what == 'manifest':
                patch.setattr('mmvtr_gallery.store.manifest.Manifest.write', broken)
            else:
                patch.setattr('mmvtr.storage.atomic.os.replace', broken)
            with pytest.raises(OSError, match='Read-only'):
                with store.kept():
                    change(store)
            assert seen(store) == before and store.count() == 19
            assert store.get(['v1'])[0].bias == before['v1'][2]
        assert seen(open_store(tmp_path)) == before
        with store.kept():
            change(store)
        assert seen(store) == seen(open_store(tmp_path)) != before


# -- refits ------------------------------------------------------------------------------------


def test_a_refit_is_taken_back_and_there_again(store):
    with pytest.raises(ValueError, match='has no refit to undo'):
        store.undo('refit')
    with pytest.raises(ValueError, match='has no change to undo'):
        store.undo()
    raw = seen(store)
    store.refit(vectors(3, 25), temperature=0.2)
    first, options = seen(store), store.last_refit
    store.refit(vectors(3, 25))  # with the options of before
    assert dict(store.last_refit, at=0) == dict(options, at=0)
    options = store.last_refit
    store.refit(vectors(4, 40), temperature=0.1, transform='inverted_softmax')
    second = seen(store)
    store.delete(['v1'])
    store.add(['late'], vectors(5, 1))
    moved = store.undo('refit').moved
    back = seen(store)
    assert store.last_refit == options and moved.largest > 0
    for name in set(NAMES) - {'v1'}:
        assert back[name] == pytest.approx(first[name], abs=1e-6)
    expected = store.debiaser.biases_of(store_tensor(store, 'late')).item()
    assert back['late'][2] == pytest.approx(expected, abs=1e-6)
    store.undo()
    again = seen(store)
    assert all(again[x] == pytest.approx(second[x], abs=1e-6) for x in set(NAMES) - {'v1'})
    assert seen(of_other_process(store)) == again
    store.refit(transform=None)
    assert {name: x[0] for name, x in seen(store).items() if name != 'late'} == pytest.approx(
        {name: x[0] for name, x in raw.items() if name != 'v1'}, abs=1e-6
    )
    store.refit(vectors(3, 25))  # the first transform, with its own options
    items = np.stack([x.vector for x in store.get(sorted(seen(store)))])
    own = Debiaser('sinkhorn', geometry=store.geometry).fit(items, vectors(3, 25)).options_
    assert store.last_refit['temperature'] == pytest.approx(own['temperature'], rel=1e-5)


def known(store, names):
    """All that a store knows of items, but their vectors, and these."""
    items = store.get(names)
    return [item._replace(vector=None) for item in items], np.stack([x.vector for x in items])


def same(one, two):
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


def test_items_that_were_added_or_removed_are_taken_back(store):
    given = dict(metadata=dict(size=[3, None], word=['a "quoted" é', 'x']), starts=[1.0, None])
    with store.kept():
        store.add(['x', 'y'], vectors(2, 2), paths=['x.mp4', None], **given)
    held = known(store, ['x', 'y', 'v3'])
    assert str(store.last_change) == 'add of 2 items'
    with store.kept():
        assert store.undo() == (('add', 2, False), None)
    assert set(seen(store)) == set(NAMES) and store.last_change == ('delete', 2, True)
    with store.kept():
        store.undo()
    same(known(store, ['x', 'y', 'v3']), held)
    with store.kept():
        store.delete(['x', 'v3'])
    for number in range(3):  # taken back, done again, taken back
        with store.kept():
            kind = 'add' if number % 2 else 'delete'
            assert store.undo().change == (kind, 2, bool(number % 2))
        assert store.count() == (20 if number % 2 else 22)
    for one in (store, of_other_process(store)):
        same(known(one, ['x', 'y', 'v3']), held)
        assert one.last_change == ('add', 2, True)
    with store.kept():
        store.add(['v3', 'z'], vectors(4, 2), removing=['v3', 'x'])
    assert str(store.last_change) == 'replace of 4 items'
    with store.kept():
        store.undo()
    same(known(store, ['x', 'y', 'v3']), held)
    assert 'z' not in seen(store) and store.count() == 22
    store.delete(['y'])
    assert store.count(dict(size=dict(min=3))) == 1


def test_what_is_taken_back_gets_the_biases_of_now(store):
    store.refit(vectors(3, 25))
    store.delete(['v3'])
    expected = known(store, ['v4'])
    store.undo()
    item = known(store, ['v3'])[0][0]
    biases = store.debiaser.biases_of(store_tensor(store, 'v3')).item()
    assert item.bias == pytest.approx(biases, abs=1e-6) and item.bias != 0
    same(known(store, ['v4']), expected)
    store.refit(vectors(4, 25))  # the last change is that one now
    assert str(store.undo()).startswith('the last refit is undone: ')


def test_a_change_is_taken_back_by_another_process(store):
    with store.kept():
        store.delete(['v1', 'v2'])
    store.close()
    if store.engine == 'qdrant':
        other = QdrantStore.open(store.name, client=store.client, write=True)
    else:
        other = open_store(store.folder, write=True)
    with other:
        assert str(other.undo()) == 'the last delete of 2 items is undone'
        np.testing.assert_array_equal(other.get(['v2'])[0].vector, vectors(1, 20)[2])


def test_a_change_that_is_too_large_to_be_taken_back(store, monkeypatch):
    monkeypatch.setattr('mmvtr_gallery.store.protocol.MOST', 2)
    store.refit(vectors(3, 25))
    with store.kept():
        store.delete(['v1', 'v2', 'v3'])
    before = seen(store)
    with pytest.raises(ValueError, match='the last delete of 3 items cannot be undone'):
        store.undo()
    with pytest.raises(ValueError, match="undo: 'refit' or nothing expected"):
        store.undo('delete')
    assert seen(store) == before
    store.undo('refit')
    assert store.debiaser is None


def store_tensor(store, name):
    import torch

    return torch.from_numpy(store.get([name])[0].vector[None])


def test_the_first_refit_taken_back_leaves_no_biases(store):
    before = seen(store)
    store.refit(vectors(3, 25))
    store.undo()
    assert store.debiaser is None and seen(store) == before
    store.persist()
    assert seen(of_other_process(store)) == before


@pytest.mark.parametrize(
    'bank, options, words',
    [
        (vectors(3, 3), {}, '3 different queries are too few for 20 items, 20 or more expected'),
        (vectors(3, 19), {}, '19 different queries are too few'),
        (vectors(3, 1).repeat(50, 0), {}, '1 different queries are too few'),
        (vectors(3, 25), dict(temperature=1e-45), 'temperature'),
        (vectors(3, 25), dict(temperature=1e-38), 'temperature'),
        (vectors(3, 25), dict(temperature=0.0), 'temperature must be positive'),
        (vectors(3, 25), dict(temperature=float('nan')), 'temperature must be positive'),
        (vectors(3, 25) * np.inf, {}, 'refit: vector 0 is not finite'),
        (np.zeros((25, DIM)), {}, 'refit: vector 0 is all zeros'),
    ],
)
def test_refits_that_cannot_be_right(store, bank, options, words):
    store.refit(vectors(8, 30))
    before, told = seen(store), store.last_refit
    with pytest.raises(ValueError, match=words):
        store.refit(bank, **options)
    assert seen(store) == before and store.last_refit == told
    store.delete(['v0'])  # what was begun is in nobody's way
    assert store.count() == 19


def test_fewer_queries_where_that_is_asked_for(store):
    moved = store.refit(vectors(3, 3), fewer=True)
    assert moved.queries == 3 and store.last_refit['num_queries'] == 3


def test_the_sample_of_served_queries_is_enough_when_it_is_full(store):
    store.keep_queries(dict(capacity=8, refit_every=5))
    store.search(vectors(4, 7))  # a refit is due, of too few: the search answers nonetheless
    assert store.last_refit is None
    with pytest.raises(ValueError, match='7 different queries are too few .* 8 or more'):
        store.refit()
    store.search(vectors(5, 9))
    assert store.last_refit['num_queries'] == 8


def test_how_far_it_has_moved():
    """Three items on the axes, seen two and one: the first query moves from item 0 to item 2."""
    items, bank = np.eye(3, dtype=np.float32), np.array([[0.5, 0.4, 0.3], [0, 1, 0]], np.float32)
    moves = Moves(bank)
    old, new = np.zeros(3, np.float32), np.array([0.1, 0.1, 0.4], np.float32)
    for part in (slice(0, 2), slice(2, 3)):
        moves.see(items[part], old[part], new[part])
    moved = moves.told()
    assert (moved.queries, moved.first) == (2, 0.5)
    assert moved.change == pytest.approx(0.4 / 3, abs=1e-6)
    assert moved.largest == pytest.approx(0.2, abs=1e-6)
    assert str(moved).startswith('50% of 2 queries of the bank find another item first')
    assert Moves(None).told() == (0, 0.0, 0.0, 0.0)


# -- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'name', ['a\0b', 'a\nb', 'a\u202eb', 'a\u2067', '\x7f', 'a\u2028', '\ud800']
)
def test_ids_that_cannot_be_seen(store, name):
    with pytest.raises(ValueError, match='ids: item 1 is .*cannot be seen, or is none') as raised:
        store.add(['fine', name], vectors(2, 2))
    assert str(raised.value).isprintable() and store.count() == 20


def test_ids_of_any_writing(store):
    names = ['-4wsuPCjDBc_5_15', 'été', '映像', 'שלום', '👩‍👩‍👧', "it's", 'a b']
    store.add(names, vectors(2, len(names)))
    assert [item.id for item in store.get(names)] == names


@pytest.mark.parametrize(
    'given, words',
    [
        (dict(starts=[9.0], ends=[1.0]), 'item 0 goes from 9.0 to 1.0 s'),
        (dict(starts=[2.0], ends=[2.0]), 'goes from 2.0 to 2.0'),
        (dict(starts=[-1.0]), 'goes from -1.0 to None'),
        (dict(ends=[-1.0]), 'goes from None to -1.0'),
        (dict(starts=[float('inf')]), 'start: item 0 is inf'),
        (dict(paths=['a\ud800.mp4']), 'path: item 0 is .*whole characters'),
        (dict(metadata=dict(note=['\udcff'])), 'note: item 0 is .*whole characters'),
        (dict(metadata=dict(note=[10**400])), 'note: item 0 is '),
        (dict(starts=[10**5000]), 'start: item 0 is a int'),
    ],
)
def test_values_that_do_not_enter(store, given, words):
    with pytest.raises(ValueError, match=words) as raised:
        store.add(['new'], vectors(2, 1), **given)
    assert len(str(raised.value)) < 400 and store.count() == 20


@pytest.mark.parametrize(
    'given',
    [{'start': 10**400}, {'end': {'min': -(10**400)}}, {'path': '\ud800'}, {'id': ['\udcff']}],
)
def test_values_of_a_filter(store, given):
    with pytest.raises(ValueError, match='filter: .* is of type'):
        store.search(vectors(9, 1), 3, filter=given)


def test_more_hits_than_items(store):
    for k in (21, 2**31, 2**63, 10**30):
        assert len(store.search(vectors(9, 1), k)[0]) == 20
