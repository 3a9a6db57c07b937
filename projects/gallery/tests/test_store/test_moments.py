"""Windows beside a gallery: against brute force, after changes of the gallery, and after kills."""

import itertools
import os
import signal
import time

import numpy as np
import pytest

from children import MP
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.moments import MomentStore, Windows, sliding

pytest.importorskip('faiss')

DIM, ITEMS, EACH = 12, 30, 8
NAMES = [f"clip'{i}" for i in range(ITEMS)]


def units(*shape, seed):
    x = np.random.default_rng(seed).normal(size=(*shape, DIM))
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)


VECTORS = units(ITEMS, EACH, seed=1)
GALLERY = VECTORS.mean(1) / np.linalg.norm(VECTORS.mean(1), axis=-1, keepdims=True)
QUERIES, BANK = units(9, seed=2), units(40, seed=3)


def windows_of(item, seconds=2.0):
    starts = [seconds * n for n in range(EACH)]
    return Windows(starts, [start + 2 * seconds for start in starts], VECTORS[item])


def spans(found):
    return [[(hit.item.id, hit.start, hit.end) for hit in hits] for hits in found]


def made(folder):
    """A gallery open for writing, and its windows."""
    store = create_store(folder, DIM, model='0123')
    store.add(
        NAMES,
        GALLERY,
        paths=[f'{i}.mp4' for i in range(ITEMS)],
        metadata=dict(split=['train', 'test', None] * (ITEMS // 3)),
    )
    moments = MomentStore.create(store, folder)
    moments.put({name: windows_of(i) for i, name in enumerate(NAMES)})
    return store, moments


def assert_right(hits, scores, k):
    """Items in the order of their best of the window scores [Q, N, W], and that window."""
    for row, found in zip(scores, hits, strict=True):
        best = row.max(1)
        order = np.argsort(-best)[:k]
        assert [hit.item.id for hit in found] == [NAMES[i] for i in order]
        np.testing.assert_allclose([hit.score for hit in found], best[order], atol=1e-5)
        place = row.argmax(1)[order]
        assert [(hit.start, hit.end) for hit in found] == [(2.0 * n, 2.0 * n + 4) for n in place]


def by_hand(seconds=0.05):
    """Scores with the inverted softmax' biases, in float64: [Q, N, W]."""
    raw = np.einsum('qd,nwd->qnw', QUERIES.astype(float), VECTORS.astype(float))
    bank = np.einsum('kd,nwd->knw', BANK.astype(float), VECTORS.astype(float))
    return raw, raw - seconds * np.log(np.exp(bank / seconds).sum(0))


def test_item_and_moment_in_one_search(tmp_path):
    raw, debiased = by_hand()
    store, moments = made(tmp_path)
    with store, moments:
        assert store.count() == ITEMS and moments.windows.count() == ITEMS * EACH
        assert_right(moments.search(QUERIES, 7), raw, 7)
        options = dict(transform='inverted_softmax', temperature=0.05, fewer=True)
        moments.windows.refit(BANK, **options)
        hits = moments.search(QUERIES, 7)
        shift = hits[0][0].score - debiased[0].max()  # biases are known up to a constant
        assert_right(hits, debiased + shift, 7)
        assert_right(moments.search(QUERIES, 7, transform=False), raw, 7)
        items = [hit.item for hit in hits[0]]
        for transform, scores in ((False, raw), (True, debiased + shift)):
            rows = [NAMES.index(item.id) for item in items]
            best = moments.best(QUERIES[:1], items, transform=transform)
            np.testing.assert_allclose([x.score for x in best], scores[0, rows].max(1), atol=1e-5)
            assert [x.start for x in best] == (2.0 * scores[0, rows].argmax(1)).tolist()
            assert {(x.item_start, x.item_end) for x in best} == {(0.0, 2.0 * EACH + 2)}
        assert hits[0][0].score == pytest.approx(hits[0][0].raw + hits[0][0].bias)
        # A window that is put later gets its bias of the same refit.
        moments.put({NAMES[3]: windows_of(3)})
        assert_right(moments.search(QUERIES, 7), debiased + shift, 7)
        moments.windows.undo()
        assert_right(moments.search(QUERIES, ITEMS + 5), raw, ITEMS)
        store.persist(), moments.windows.persist()
    with open_store(tmp_path) as store, MomentStore.open(store, tmp_path) as moments:
        assert_right(moments.search(QUERIES, 7), raw, 7)
        with pytest.raises(PermissionError):
            moments.put({NAMES[0]: windows_of(0)})


def test_filters_are_those_of_the_items(tmp_path):
    raw, _ = by_hand()
    store, moments = made(tmp_path)
    with store, moments:
        train = [
            hit.item.id for hit in moments.search(QUERIES[:1], 99, filter={'split': 'train'})[0]
        ]
        assert sorted(train) == sorted(NAMES[::3])
        (hit,) = moments.search(QUERIES[:1], 5, filter={'id': NAMES[4]})[0]
        assert hit.item.id == NAMES[4] and hit.start == 2.0 * raw[0, 4].argmax()
        late = moments.search(QUERIES[:1], 5, filter={'start': {'min': 9}})[0]
        assert all(hit.start >= 9 for hit in late) and len(late) == 5
        with pytest.raises(ValueError, match='no column'):
            moments.search(QUERIES, filter={'of': 3})


def test_windows_of_what_is_gone_or_replaced_are_not_found(tmp_path):
    store, moments = made(tmp_path)
    with store, moments:
        (first,) = moments.search(QUERIES[:1], 1)[0]
        store.delete([first.item.id])
        after = moments.search(QUERIES[:1], ITEMS)[0]
        assert len(after) == ITEMS - 1 and first.item.id not in {hit.item.id for hit in after}
        second = after[0].item.id
        store.add([second], GALLERY[:1], removing=[second])  # another file of that name
        assert second not in {hit.item.id for hit in moments.search(QUERIES[:1], ITEMS)[0]}
        assert moments.missing() == [second]
        assert moments.sweep() == 2 * EACH and moments.sweep() == 0
        moments.put({second: windows_of(0, seconds=3.0)})
        assert moments.missing() == []
        hits = moments.search(VECTORS[0, 2:3], 1)[0]
        assert (hits[0].item.id, hits[0].start) in {(second, 6.0), (NAMES[0], 4.0)}


def test_items_in_quarantine_keep_their_windows(tmp_path):
    raw, _ = by_hand()
    store, moments = made(tmp_path)
    with store, moments:
        held = NAMES[raw[0].max(1).argmax()]
        store.quarantine([held])
        found = [hit.item.id for hit in moments.search(QUERIES[:1], ITEMS)[0]]
        assert len(found) == ITEMS - 1 and held not in found
        assert moments.sweep() == 0 and moments.missing() == []
        moments.put({held: windows_of(NAMES.index(held))})
        assert moments.windows.count() == ITEMS * EACH
        store.release([held])
        assert moments.search(QUERIES[:1], 1)[0][0].item.id == held


@pytest.mark.parametrize('form', ['hnsw', 'scan'])
def test_an_index_of_windows(tmp_path, form):
    store, moments = made(tmp_path)
    with store, moments:
        many = {f'm{i}': Windows([0.0], [1.0], units(1, seed=100 + i)) for i in range(40)}
        store.add(list(many), np.concatenate([one.vectors for one in many.values()]))
        moments.put(many)
        moments.windows.refit(BANK, temperature=0.05, fewer=True)
        exact = moments.search(QUERIES, 5)
        moments.windows.index(form, candidates=200)
        near = moments.search(QUERIES, 5)
        same = [a.item.id == b.item.id for x, y in zip(exact, near) for a, b in zip(x, y)]
        assert np.mean(same) > 0.8
        moments.windows.index(form, candidates=500)  # no fewer than there are
        assert spans(moments.search(QUERIES, 5)) == spans(exact)
        one = moments.search(QUERIES[:1], 5, filter={'id': NAMES[4]})[0]
        assert [hit.item.id for hit in one] == [NAMES[4]]
        # What comes later is found, too, and in a store that was opened again.
        store.add(['late'], GALLERY[:1])
        moments.put({'late': Windows([0.0], [1.0], QUERIES[:1])})
        assert moments.search(QUERIES[:1], 1, transform=False)[0][0].item.id == 'late'
        store.persist(), moments.windows.persist()
    with open_store(tmp_path) as store, MomentStore.open(store, tmp_path) as moments:
        assert moments.search(QUERIES[:1], 1, transform=False)[0][0].item.id == 'late'
        assert spans(moments.search(QUERIES[1:], 5)) == spans(exact[1:])


def test_what_is_refused(tmp_path):
    store, moments = made(tmp_path)
    with store, moments:
        with pytest.raises(ValueError, match='has no item'):
            moments.put({'nobody': windows_of(0)})
        with pytest.raises(ValueError, match='one window or more'):
            moments.put({NAMES[0]: Windows([], [], VECTORS[0][:0])})
        with pytest.raises(ValueError, match='one vector per window'):
            moments.put({NAMES[0]: Windows([0.0], [1.0], VECTORS[0])})
        with pytest.raises(ValueError, match='before the end'):
            moments.put({NAMES[0]: Windows([2.0], [1.0], VECTORS[0][:1])})
        with pytest.raises(ValueError, match='k must be'):
            moments.search(QUERIES, 0)
        assert moments.windows.count() == ITEMS * EACH
    (biases,) = (tmp_path / 'moments').glob('biases-*')
    kept = biases.read_bytes()
    biases.unlink()
    with open_store(tmp_path) as store:
        with pytest.raises(RuntimeError, match=f'windows are damaged: .*{biases.name}'):
            MomentStore.open(store, tmp_path)  # not as if there were none
        biases.write_bytes(kept)
        MomentStore.open(store, tmp_path).close()
    with open_store(tmp_path, write=True) as store:
        (tmp_path / 'moments' / 'store.json').unlink()
        with pytest.raises(FileNotFoundError, match='holds no store'):
            MomentStore.open(store, tmp_path)
        with create_store(tmp_path / 'moments', DIM, model='other'):
            pass
        with pytest.raises(ValueError, match='another model'):
            MomentStore.open(store, tmp_path)


def test_sliding():
    assert sliding(0, 10, 4, 2) == [(0, 4), (2, 6), (4, 8), (6, 10)]
    assert sliding(1, 10, 4, 4) == [(1, 5), (5, 9), (6, 10)]
    assert sliding(0, 3, 4, 2) == [(0, 3)]
    with pytest.raises(ValueError, match='no windows'):
        sliding(0, 3, 4, 0)


def change_apart(folder, begun):
    """Put items and windows anew, for ever, in one change of both stores a turn."""
    with open_store(folder, write=True) as store:
        with MomentStore.open(store, folder, write=True) as moments:
            begun.send('begun')
            for turn in itertools.count():
                with moments.windows.kept(), store.kept():
                    item = turn % ITEMS
                    name = NAMES[item]
                    store.add([name], GALLERY[item : item + 1], removing=[name])
                    moments.put({name: windows_of(item, seconds=1.0 + turn // ITEMS % 2)})


def run_and_kill(work, folder, rng):
    """In a forked child, which has nothing to import, until half a second after it has begun."""
    begun, theirs = MP.Pipe(duplex=False)
    child = MP.Process(target=work, args=(folder, theirs))
    child.start()
    theirs.close()
    assert begun.recv() == 'begun'
    time.sleep(rng.uniform(0, 0.5))
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert child.exitcode == -signal.SIGKILL


def test_kills_leave_an_item_all_of_its_windows_or_none(tmp_path):
    store, moments = made(tmp_path)
    store.persist(), moments.windows.persist()
    store.close(), moments.close()
    rng = np.random.default_rng(0)
    for _ in range(3):
        run_and_kill(change_apart, tmp_path, rng)
        with open_store(tmp_path, write=True) as store:
            with MomentStore.open(store, tmp_path, write=True) as moments:
                assert store.count() == ITEMS
                without = moments.missing()
                moments.sweep()
                assert moments.windows.count() == EACH * (ITEMS - len(without))
                assert len(without) <= 1
                if without:
                    moments.put({name: windows_of(NAMES.index(name)) for name in without})
                moments.windows.persist()


def change_together(folder, begun):
    """The same by :meth:`MomentStore.add`."""
    with open_store(folder, write=True) as store:
        with MomentStore.open(store, folder, write=True) as moments:
            begun.send('begun')
            for turn in itertools.count():
                with moments.kept():
                    item = turn % ITEMS
                    name = NAMES[item]
                    windows = {name: windows_of(item, seconds=1.0 + turn // ITEMS % 2)}
                    own = GALLERY[item : item + 1]
                    moments.add([name], own, windows=windows, removing=[name])


def test_kills_leave_every_item_that_was_added_with_windows_all_of_them(tmp_path):
    store, moments = made(tmp_path)
    store.persist(), moments.windows.persist()
    store.close(), moments.close()
    rng = np.random.default_rng(1)
    for _ in range(3):
        run_and_kill(change_together, tmp_path, rng)
        with open_store(tmp_path, write=True) as store:
            with MomentStore.open(store, tmp_path, write=True) as moments:
                assert store.count() == ITEMS and moments.missing() == []
                if store.last_change is not None:  # and those that an undo brings back
                    moments.undo()
                    assert moments.missing() == []
                moments.sweep(undoable=False)
                assert moments.missing() == []
                store.persist(), moments.windows.persist()


def test_a_refit_that_fails_on_the_windows_changes_neither(tmp_path, monkeypatch):
    store, moments = made(tmp_path)
    with store, moments:
        moments.refit(BANK, temperature=0.05, fewer=True)
        before = [x.bias for x in store.get(NAMES)], moments.windows.last_refit
        assert before[1]['num_queries'] == len(BANK)

        def full(*args, **kwargs):
            raise OSError('a full disk')

        monkeypatch.setattr(moments.windows, 'refit', full)
        with pytest.raises(OSError, match='a full disk'), moments.kept():
            moments.refit(QUERIES, temperature=0.05, fewer=True)
        assert [x.bias for x in store.get(NAMES)] == pytest.approx(before[0], abs=1e-6)
        assert moments.windows.last_refit == before[1]


def test_undo_of_a_refit_of_the_items_alone_leaves_the_windows(tmp_path):
    store, moments = made(tmp_path)
    with store, moments:
        moments.refit(BANK, temperature=0.05, fewer=True)
        kept, own = moments.windows.last_refit, store.last_refit
        assert {**kept, **{x: own[x] for x in ('at', 'items')}} == own
        store.refit(QUERIES, temperature=0.05, fewer=True)
        moments.undo()
        assert moments.windows.last_refit == kept and store.last_refit == own
        moments.undo('refit')  # of the items alone, anew
        assert moments.windows.last_refit == kept and store.last_refit != own


def test_undo_after_a_refit_of_the_items_alone_and_one_of_both(tmp_path):
    store, moments = made(tmp_path)
    with store, moments:
        moments.refit(BANK, temperature=0.05, fewer=True)
        store.refit(QUERIES, temperature=0.05, fewer=True)
        alone = store.last_refit
        moments.refit(BANK[:20], temperature=0.05, fewer=True)
        moments.undo()
        assert store.last_refit == alone
        np.testing.assert_allclose(moments.windows.debiaser.bank_.texts, QUERIES, atol=1e-6)


def biases(store, column='id'):
    """Of all items, or of all windows, in one order: id or owner, start, bias."""
    columns = store.table([column, 'start', 'bias'])[1]
    return sorted(zip(columns[column], map(str, columns['start']), columns['bias']))


def test_undo_tells_refits_of_other_queries_apart(tmp_path):
    """A refit that follows by itself, from as many queries as all before, is of the items alone."""
    options = dict(temperature=0.05, fewer=True)
    store, moments = made(tmp_path)
    with store, moments:
        for seed in (4, 5):
            moments.refit(units(16, seed=seed), **options)
        before = biases(store), biases(moments.windows)
        store.refit(units(16, seed=6), **options)
        moments.undo()
        assert biases(moments.windows) == before[1]
        assert [x[2] for x in biases(store)] == pytest.approx([x[2] for x in before[0]], abs=1e-6)


def test_a_refit_reads_no_windows_of_items_that_are_gone(tmp_path):
    found = []
    for early in (True, False):
        store, moments = made(tmp_path / str(early))
        with store, moments:
            store.persist(), moments.windows.persist()
            moments.delete(NAMES[:10])
            assert moments.windows.count() == EACH * ITEMS  # an undo might bring them back
            if early:
                moments.sweep()
            moments.refit(BANK, temperature=0.05, fewer=True)
            assert moments.windows.count() == EACH * (ITEMS - 10)
            found.append([x[2] for x in biases(moments.windows, 'of_item')])
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_what_is_added_with_windows_is_checked_as_without(tmp_path):
    store, moments = made(tmp_path)
    own, windows = GALLERY[:2], dict(b=windows_of(0))
    with store, moments:
        with pytest.raises(ValueError, match="windows of 'c', which is not among the new items"):
            moments.add(['a', 'b'], own, windows=dict(windows, c=windows_of(1)))
        for given in (dict(paths=['x']), dict(metadata=dict(split=['x']))):
            with pytest.raises(ValueError, match='2 values expected'):
                moments.add(['a', 'b'], own, windows=windows, **given)
        assert store.count() == ITEMS and moments.windows.count() == ITEMS * EACH
        store.add(['c'], GALLERY[:1], metadata=dict(year=[1999.5]))
        moments.add(['a', 'b'], own, windows=windows, metadata=dict(year=[2000, 2001]))
        assert moments.windows.types['year'] == store.types['year'] == 'float'
        found = moments.search(QUERIES[:1], 3, filter=dict(year=2001.0))[0]
        assert [hit.item.id for hit in found] == ['b']


def full(*args, **kwargs):
    raise OSError('a full disk')


@pytest.mark.parametrize('change', ['refit', 'undo'])
def test_a_disk_that_is_full_between_windows_and_items(tmp_path, monkeypatch, change):
    store, moments = made(tmp_path)
    moments.persist()
    with moments.kept():
        moments.refit(BANK, temperature=0.05, fewer=True)
    before = biases(store), biases(moments.windows)
    with pytest.raises(OSError, match='a full disk'), moments.kept():
        if change == 'refit':
            moments.refit(QUERIES, temperature=0.05, fewer=True)
        else:
            moments.undo()
        assert biases(moments.windows) != before[1]
        monkeypatch.setattr('mmvtr_gallery.store.joint.write_atomically', full)
    store.close(), moments.close()
    with open_store(tmp_path) as store, MomentStore.open(store, tmp_path) as moments:
        for kept, now in zip(before, (biases(store), biases(moments.windows))):
            assert [x[2] for x in now] == pytest.approx([x[2] for x in kept], abs=1e-6)


@pytest.mark.parametrize('change', ['undo', 'delete', 'refit', 'add'])
def test_a_change_that_fails_on_one_of_both_changes_neither(tmp_path, monkeypatch, change):
    store, moments = made(tmp_path)
    with store, moments:
        moments.refit(BANK, temperature=0.05, fewer=True)
        moments.delete(NAMES[:1])  # its windows go with the change after
        held = [biases(store), biases(moments.windows, 'of_item')]
        if change == 'undo':
            moments.undo()
            held = [biases(store), biases(moments.windows, 'of_item')]
        failing = {'undo': 'undo', 'delete': 'delete', 'refit': 'refit'}.get(change)
        with monkeypatch.context() as patch:
            patch.setattr(store if failing is None else moments.windows, failing or 'add', full)
            with pytest.raises(OSError, match='a full disk'), moments.kept():
                if change == 'undo':
                    moments.undo('refit')
                elif change == 'delete':
                    moments.delete(NAMES[1:2])
                elif change == 'refit':
                    moments.refit(QUERIES, temperature=0.05, fewer=True)
                else:
                    moments.add(['n'], GALLERY[:1], windows=dict(n=windows_of(0)))
        assert [biases(store), biases(moments.windows, 'of_item')] == held
        assert [x.name for x in tmp_path.glob('joint*')] == []
    with open_store(tmp_path) as store, MomentStore.open(store, tmp_path) as moments:
        assert [biases(store), biases(moments.windows, 'of_item')] == held


def cut_short(folder, monkeypatch):
    """A gallery and windows of a joint refit that ends right behind its moment; the biases then."""
    store, moments = made(folder)
    with store, moments:
        moments.persist()
        with monkeypatch.context() as patch:
            patch.setattr('mmvtr_gallery.store.joint._settle', lambda changed: None)
            with moments.kept():
                moments.refit(BANK, temperature=0.05, fewer=True)
        return [biases(store), biases(moments.windows, 'of_item')]


def test_a_change_that_was_cut_short_is_whole_and_said_once(tmp_path, monkeypatch):
    new, said = cut_short(tmp_path, monkeypatch), []
    for place in ('opening', 'joint'):
        place = f'mmvtr_gallery.store.{place}.print_log'
        monkeypatch.setattr(place, lambda text, *_: said.append(text))
    for write, words in [(False, 'was cut short by a kill'), (True, 'is whole now'), (False, None)]:
        with open_store(tmp_path, write=write) as store:
            with MomentStore.open(store, tmp_path, write=write) as moments:
                assert [biases(store), biases(moments.windows, 'of_item')] == new and moments.alike
                assert (store.unfinished is None) == (words != 'was cut short by a kill')
        assert [words in text for text in said] == ([] if words is None else [True])
        said.clear()
    assert not (tmp_path / 'joint.json').exists()


def test_windows_alone_say_that_a_change_was_cut_short(tmp_path, monkeypatch):
    new, said = cut_short(tmp_path, monkeypatch), []
    monkeypatch.setattr('mmvtr_gallery.store.opening.print_log', lambda x, *_: said.append(x))
    with open_store(tmp_path / 'moments') as windows:
        assert biases(windows, 'of_item') == new[1]
    assert len(said) == 1 and 'was cut short by a kill' in said[0]
