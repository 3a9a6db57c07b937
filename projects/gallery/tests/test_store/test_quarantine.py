"""Items that searches leave out, in every engine: kept, undone, and who should perhaps be there."""

import json

import numpy as np
import pytest

from mmvtr.storage.digests import ROOM, write_with_digest
from mmvtr_gallery.store import create_store, open_store
from stores import NEEDS, empty_store, of_other_process

pytestmark = pytest.mark.filterwarnings('ignore:Local mode performs exact')
DIM = 12


def units(count, seed, around=0.0):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    x[:, 0] = around
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


GALLERY, QUERIES = units(150, 1, around=-1), units(60, 2, around=2)
GALLERY[7] = QUERIES.mean(0) / np.linalg.norm(QUERIES.mean(0))
NAMES = [f"v'{i}" for i in range(150)]


@pytest.fixture(params=NEEDS)
def store(request, tmp_path):
    with empty_store(request.param, tmp_path, DIM) as found:
        found.add(NAMES, GALLERY, metadata=dict(odd=[i % 2 == 1 for i in range(150)]))
        found.persist()
        yield found


def firsts(store, **options):
    return [hits[0].item.id for hits in store.search(QUERIES, 1, **options)]


def test_no_search_finds_it_until_it_is_released(store):
    before = store.search(QUERIES, 4)
    assert firsts(store).count(NAMES[7]) > 30 and store.quarantined == []
    store.quarantine([NAMES[9], NAMES[7]])
    store.persist()
    for one in (store, of_other_process(store)):
        assert one.quarantined == [NAMES[7], NAMES[9]]
        assert one.count() == 150 and one.get([NAMES[7]])[0].id == NAMES[7]
        found = one.search(QUERIES[:12], 150)
        assert all(len(hits) == 148 for hits in found)
        left = [
            [hit.item.id for hit in hits if hit.item.id not in (NAMES[7], NAMES[9])]
            for hits in before
        ]
        for hits, expected in zip(found, left):
            assert [hit.item.id for hit in hits][: len(expected)] == expected
        odd = one.search(QUERIES[:2], 150, filter=dict(odd=True))
        assert all(len(hits) == 73 for hits in odd)
        assert one.search(QUERIES[:1], 3, filter=dict(id=[NAMES[7]])) == [[]]
    store.release([NAMES[7]])
    assert store.quarantined == [NAMES[9]]
    store.release([NAMES[9]])
    store.persist()
    assert store.search(QUERIES, 4) == before == of_other_process(store).search(QUERIES, 4)


def test_it_outlives_refits_and_an_item_of_the_same_name(store):
    store.quarantine([NAMES[7]])
    store.refit(QUERIES, temperature=0.1, fewer=True)
    store.add([NAMES[7]], GALLERY[7:8], removing=[NAMES[7]])
    assert NAMES[7] not in firsts(store)
    store.delete([NAMES[7]])
    store.undo('refit')
    assert store.quarantined == [NAMES[7]] and store.count() == 149
    store.release([NAMES[7]])
    assert store.quarantined == []


def test_suspects(store):
    (one,) = store.suspects(QUERIES)
    assert one.id == NAMES[7] and one.share > 0.5 and one.breadth > 0.5
    store.refit(QUERIES, temperature=0.02, fewer=True)
    assert store.suspects(QUERIES) == [one], 'raw scores tell'
    store.quarantine([one.id])
    assert store.suspects(QUERIES) == []
    with pytest.raises(ValueError, match='the store keeps none'):
        store.suspects()
    with pytest.raises(ValueError, match='49 queries and 150 items are too few'):
        store.suspects(QUERIES[:49])
    with pytest.raises(ValueError, match=r'holds vectors \[N, 12\]'):
        store.suspects(QUERIES[:, :3])


def test_suspects_of_served_queries(tmp_path):
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM, online=dict(capacity=100)) as store:
        store.add(NAMES, GALLERY)
        store.search(QUERIES, 3)
        seen = store.online.seen
        assert [one.id for one in store.suspects()] == [NAMES[7]]
        assert store.online.seen == seen


def test_an_index_leaves_it_out(store):
    if store.engine == 'qdrant':
        pytest.skip('its embedded mode has no graph')
    store.add([f'more {i}' for i in range(150)], units(150, 3, around=-1))
    store.index(partitions=4, probes=4)
    store.quarantine([NAMES[7]])
    assert NAMES[7] not in firsts(store) and len(firsts(store)) == 60


def test_what_is_refused(store):
    for change, ids, said in (
        (store.quarantine, ['gone'], 'has no item'),
        (store.quarantine, [], 'at least one'),
        (store.quarantine, 'v', 'a list of strings'),
        (store.release, [NAMES[7]], "1 ids are not in quarantine, e.g. .v'7"),
    ):
        with pytest.raises(ValueError, match=said):
            change(ids)
    assert store.quarantined == []
    if store.engine != 'qdrant':
        with pytest.raises(PermissionError, match='for reading'):
            open_store(store.folder).quarantine([NAMES[7]])


@pytest.mark.parametrize('value', [3, 'a', ['b', 'a'], ['a', 'a'], [1], [''], None])
def test_a_manifest_with_what_is_none(tmp_path, value):
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM) as store:
        store.add(NAMES, GALLERY)
        store.persist()
    path = tmp_path / 'store.json'
    said = json.loads(path.read_text())
    rewrite(path, {**said, 'quarantined': value})
    with pytest.raises(RuntimeError, match='store.json is damaged: quarantined is '):
        open_store(tmp_path)
    del said['quarantined']  # of before
    rewrite(path, said)
    assert open_store(tmp_path).quarantined == []


def rewrite(path, said):
    with open(path, 'wb') as file:
        write_with_digest(json.dumps({**said, 'sha256': ROOM}, indent=1).encode(), file)


def test_it_is_in_the_history(store):
    """An undo takes back what was done last, a second one redoes it, and both say so."""
    store.refit(QUERIES, fewer=True)
    store.delete([NAMES[3]])
    assert str(store.undo()) == 'the last delete of 1 item is undone'
    assert store.last_change == ('add', 1, True)
    assert str(store.last_change) == 'delete of 1 item'
    store.quarantine([NAMES[7], NAMES[9]])
    store.quarantine([NAMES[7]])  # which changes nothing
    assert of_other_process(store).last_change == ('quarantine', 2, False)
    assert str(store.undo()) == 'the last quarantine of 2 items is undone'
    assert store.quarantined == [] and store.count() == 150
    assert str(store.undo()) == 'the last quarantine of 2 items is redone'
    assert of_other_process(store).quarantined == [NAMES[7], NAMES[9]]
    store.release([NAMES[9]])
    store.undo()
    assert store.quarantined == [NAMES[7], NAMES[9]] and store.last_change == (
        'quarantine',
        1,
        True,
    )
    store.undo()
    assert store.quarantined == [NAMES[7]] and store.last_change == ('release', 1, False)
    assert str(store.undo('refit')).startswith('the last refit is undone')
    assert store.last_change == ('refit', None, True)
    assert str(store.undo()).startswith('the last refit is redone')
