"""The life of a fitted gallery: items come, go and change; what is loaded alone; rows in an engine;
searches beside changes."""

import copy
import json
import threading
import time

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr.arrays import fitting
from mmvtr.arrays.vectors import Part, Vectors
from mmvtr.functional.transforms.transform_table import ADDITIVE, OF_BANK

RANDOM = np.random.default_rng(0)
VIDEOS = (RANDOM.normal(size=(90, 12)) + 0.8).astype('f4')
SEEN = (RANDOM.normal(size=(70, 12)) + 0.8).astype('f4')
ASKED = (SEEN + RANDOM.normal(size=(70, 12)) + 0.5).astype('f4')
TEXTS = (VIDEOS[:20] + RANDOM.normal(size=(20, 12)) + 0.5).astype('f4')
BANK = (ASKED, SEEN)
IDS = [f'v{i}' for i in range(90)]
NEEDED = dict(hedged_scaling=dict(first=-0.3, strength=0.6))


def fitted(name='sinkhorn', rows=slice(None), **how):
    options = NEEDED.get(name, {})
    return mmvtr.fit(VIDEOS[rows], BANK, name, ids=IDS[rows], **options, **how)


def by_id(one, texts=TEXTS):
    """Scores of all items, by id."""
    return dict(zip(one.ids_.tolist(), one.scores(texts).T))


@pytest.mark.parametrize('name', [None, *OF_BANK])
def test_items_come_go_and_change(name):
    one = fitted(name, slice(60))
    before, generation = by_id(one), one.generation_
    one.remove(['v3', 'v50']).add(VIDEOS[60:], ids=IDS[60:]).update(
        VIDEOS[[3, 5]], ids=['v7', 'v8']
    )
    after = by_id(one)
    assert len(one) == 88 and {*after} == {*IDS} - {'v3', 'v50'}
    if name in (None, *ADDITIVE):
        for x in {*before} - {'v3', 'v50', 'v7', 'v8'}:
            np.testing.assert_allclose(after[x], before[x], atol=1e-6)
        np.testing.assert_allclose(after['v7'], before['v3'], atol=1e-5)
        np.testing.assert_allclose(after['v8'], after['v5'], atol=1e-5)
    assert one.generation_ == generation + 3
    rows = [*range(3), *range(4, 7), *range(9, 50), *range(51, 90), 3, 5]
    names = [x for x in IDS if x not in ('v3', 'v50', 'v7', 'v8')] + ['v7', 'v8']
    fresh = mmvtr.fit(VIDEOS[rows], BANK, name, ids=names, **NEEDED.get(name, {}))
    one.refit(BANK)
    assert one.ids_.tolist() == names
    assert one.search(TEXTS, 9).ids.tolist() == fresh.search(TEXTS, 9).ids.tolist()
    np.testing.assert_allclose(one.scores(TEXTS), fresh.scores(TEXTS), atol=1e-6)


@pytest.mark.parametrize('geometry', ['cosine', 'inner_product'])
@pytest.mark.parametrize(
    'kind', [np.float16, np.float32, np.float64, torch.half, 'mapped', 'mixed']
)
def test_rows_are_the_same_however_they_came(kind, geometry, tmp_path, monkeypatch):
    """Parts are joined, copied and left out as memory wants it; rows stay what they are."""
    monkeypatch.setattr('mmvtr.arrays.vectors.CONVERTED', 12 * 7)

    def given(rows):
        if isinstance(kind, torch.dtype):
            return torch.tensor(rows).to(kind)
        if kind == 'mapped':
            path = tmp_path / f'{len([*tmp_path.iterdir()])}.npy'
            np.save(path, rows.astype('f2'))
            return np.load(path, mmap_mode='r')
        if kind == 'mixed':
            return rows.astype(RANDOM.choice(['f2', 'f4', 'f8', '>f4']))
        return rows.astype(kind)

    videos = VIDEOS.astype('f2').astype('f4')
    one = mmvtr.fit(given(videos[:30]), ids=IDS[:30], geometry=geometry)
    left = IDS[:30]
    for i in range(30, 90):
        one.add(given(videos[i : i + 1]), ids=IDS[i : i + 1])
        left.append(IDS[i])
        if i % 2:
            gone = [left.pop(int(RANDOM.integers(len(left)))) for _ in range(i % 3)]
            one.remove(gone)
    rows = [int(x[1:]) for x in left]
    fresh = mmvtr.fit(videos[rows], geometry=geometry)
    assert one.ids_.tolist() == left
    assert np.array_equal(one.as_vectors(), fresh.as_vectors())
    texts = TEXTS if not isinstance(kind, torch.dtype) else torch.tensor(TEXTS)
    for queries in (texts, texts[:1], texts[:3]):
        np.testing.assert_allclose(
            one.scores(queries), fresh.scores(TEXTS[: len(queries)]), atol=2e-6, rtol=1e-6
        )
    some = torch.tensor([5, 0, 17, 17])
    parts = one._state.gallery
    assert torch.equal(parts.unit(some), fresh._state.gallery.unit(some))
    assert len(parts.parts) < 12


def test_a_large_part_is_not_copied(monkeypatch):
    monkeypatch.setattr('mmvtr.arrays.vectors.JOINED', 100)
    one = fitted().remove(IDS[:80]).add(VIDEOS[:20], ids=[f'n{i}' for i in range(20)])
    held = one._state.gallery.parts
    assert held[0].array is not None and len(held) == 2
    assert np.shares_memory(held[0].array, VIDEOS[80:]) or len(held[0].array) == 10


@pytest.mark.parametrize('count', [1, 2, 15, 16, 40])
def test_products_are_those_of_float64(count):
    rows, queries = RANDOM.normal(size=(50, 12)), RANDOM.normal(size=(count, 12))
    part = Part(rows.astype('f4'), torch.tensor(np.linalg.norm(rows, axis=1)).float())
    expected = queries @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T
    found = Vectors((part, part)).products(torch.tensor(queries).float(), slice(3, 77))
    np.testing.assert_allclose(found, np.hstack([expected, expected])[:, 3:77], atol=3e-6)


@pytest.mark.parametrize('kind', ['f2', 'f4', 'f8'])
def test_of_equal_scores_the_lowest_row_comes_first(kind, monkeypatch):
    """However many queries ask, and wherever blocks and parts end."""
    monkeypatch.setattr('mmvtr.arrays.vectors.CONVERTED', 12 * 16)
    monkeypatch.setattr('mmvtr.arrays.vectors.JOINED', 0)
    rows = VIDEOS[RANDOM.integers(0, 5, 160)].astype(kind)
    one = mmvtr.fit(rows[:96], BANK, 'nnn', ids=range(96)).add(rows[96:], ids=range(96, 160))
    first = [int((rows == row).all(1).argmax()) for row in rows]
    for texts in (TEXTS, TEXTS[:1], TEXTS[3:5]):
        found = one.search(texts, 160).ids
        alike = np.array(first)[found]
        inside = np.diff(alike, axis=1) == 0
        assert inside.mean() > 0.95 and (np.diff(found, axis=1)[inside] > 0).all()
        assert np.array_equal(one.search(texts, 7).ids, found[:, :7])


def test_no_change_of_several_threads_is_lost(monkeypatch):
    one = fitted('nnn', slice(60))
    further, wrong, start = fitting.further, [], threading.Barrier(4)

    def slow(*given):
        time.sleep(0.002)  # others change meanwhile
        return further(*given)

    monkeypatch.setattr(fitting, 'further', slow)

    def change(number):
        try:
            start.wait()
            for row in range(60 + number, 90, 4):
                one.add(VIDEOS[[row]], ids=[IDS[row]])
                one.update(VIDEOS[[row]], ids=[IDS[row]])
                one.remove([IDS[row - 60]])
            if number == 0:
                one.refit(BANK).calibrate()
        except Exception as error:  # noqa: BLE001 - whatever it is
            wrong.append(error)

    threads = [threading.Thread(target=change, args=(i,)) for i in range(4)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    assert not wrong
    assert {*one.ids_.tolist()} == {*IDS[30:]} and len(one) == 60
    assert one.generation_ == 1 + 3 * 30 + 2
    fresh = mmvtr.fit(VIDEOS, BANK, 'nnn', ids=IDS)
    expected = fresh.biases_[fresh.rows_of(one.ids_)]
    np.testing.assert_allclose(
        one.biases_ - one.biases_.mean(), expected - expected.mean(), atol=1e-6
    )


def test_what_is_no_change_of_items_is_refused():
    one = fitted()
    state = one._state
    for call, said in (
        (lambda: one.remove(['v1', 'x']), "no item with the id 'x'"),
        (lambda: one.remove(['v1', 'v1']), "'v1' occurs twice"),
        (lambda: one.remove(IDS), 'this removes all items'),
        (lambda: one.update(VIDEOS[:1], ids=['x']), "no item with the id 'x'"),
        (lambda: one.update(VIDEOS[:2], ids=['v1']), '1 ids for 2 videos'),
        (lambda: one.update(VIDEOS[:1, :3], ids=['v1']), 'have width 3'),
        (lambda: mmvtr.fit(VIDEOS).remove([1]), 'none were given to fit'),
        (lambda: one.behind(IDS[:3], [1]), '3 ids and 1 generations'),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    assert one._state is state


def test_it_says_how_far_it_went():
    one = fitted('nnn', slice(60))
    assert one.stale_ == (0, 0, 0) and 'after the fit' in str(one.stale_)
    near_all = ASKED.mean(0) + 0.1 * RANDOM.normal(size=(20, 12))
    one.add(near_all.astype('f4'), ids=[f'n{i}' for i in range(20)]).remove(IDS[:6])
    said = one.stale_
    assert said.added == pytest.approx(20 / 74) and said.removed == pytest.approx(0.1)
    old, new = one.biases_[:54].double(), one.biases_[54:].double()
    expected = ((new.mean() - old.mean()) / old.std(correction=0)).item()
    assert said.drift == pytest.approx(expected) and said.drift < -1
    assert one.refit(BANK).stale_ == (0, 0, 0)
    assert fitted(None, slice(60)).add(VIDEOS[60:], ids=IDS[60:]).stale_[:2] == (1 / 3, 0)


@pytest.mark.parametrize('name', [None, *OF_BANK])
def test_loaded_alone(name, tmp_path):
    whole = fitted(name).calibrate()
    whole.save(tmp_path)
    alone = mmvtr.Debiaser.load(tmp_path)
    assert len(alone) == 90 and torch.equal(alone.biases_, whole.biases_)
    assert alone.ids_.tolist() == IDS and torch.equal(alone.generations_, whole.generations_)
    assert torch.equal(alone.biases_[alone.rows_of(['v7', 'v2'])], whole.biases_[[7, 2]])
    for call in (lambda x: x.search(TEXTS), lambda x: x.refit(BANK), lambda x: x.calibrate()):
        with pytest.raises(ValueError, match='vectors of the gallery are not here'):
            call(alone)
    if name in (None, *ADDITIVE):
        assert np.array_equal(alone.query(TEXTS), whole.query(TEXTS))
        assert torch.equal(alone.biases_of(VIDEOS[:5]), whole.biases_of(VIDEOS[:5]))
        expected = whole.as_vectors()
        for part in (slice(0, 40), slice(40, 90)):
            found = alone.as_vectors(part, videos=VIDEOS[part])
            assert np.array_equal(found, expected[part])
        with pytest.raises(ValueError, match='these rows was fitted to another gallery'):
            alone.as_vectors(slice(0, 2), videos=VIDEOS[1:3])
        for x in (alone, whole):
            x.remove(['v0', 'v89']).add(VIDEOS[:1], ids=['new']).update(VIDEOS[5:6], ids=['v9'])
    for x in (alone, whole):  # and saved from there
        x.save(tmp_path / ('alone' if x is alone else 'whole'))
    rows = [int(x[1:]) if x != 'new' else 0 for x in whole.ids_]
    rows = [5 if x == 'v9' else row for x, row in zip(whole.ids_, rows)]
    if name in (None, *ADDITIVE):
        one, two = (
            mmvtr.Debiaser.load(tmp_path / x, VIDEOS[rows], ids=whole.ids_)
            for x in ('alone', 'whole')
        )
        assert np.array_equal(one.scores(TEXTS), two.scores(TEXTS))
        assert torch.equal(one.generations_, two.generations_)


@pytest.mark.parametrize('name', [None, *OF_BANK])
def test_a_gallery_is_matched_by_its_ids(name, tmp_path):
    whole = fitted(name)
    new = VIDEOS[:1] + VIDEOS[1:2]
    whole.add(new, ids=['new']).save(tmp_path)
    order = RANDOM.permutation(91)
    videos, ids = np.vstack([VIDEOS, new])[order], np.array([*IDS, 'new'])[order]
    found = mmvtr.Debiaser.load(tmp_path, videos, ids=ids)
    assert found.ids_.tolist() == ids.tolist()
    np.testing.assert_allclose(found.scores(TEXTS), whole.scores(TEXTS)[:, order], atol=1e-6)
    assert torch.equal(found.generations_, whole.generations_[order])
    for wrong, said in (
        ((videos[1:], ids[1:]), f"1 ids are missing, such as '{ids[0]}'"),
        ((videos, ['x', *ids[1:]]), "1 ids are not among those saved, such as 'x'"),
        ((videos[::-1], ids), 'was fitted to another gallery'),
    ):
        with pytest.raises(ValueError, match=said):
            mmvtr.Debiaser.load(tmp_path, wrong[0], ids=wrong[1])


def test_a_file_of_version_1_is_read(tmp_path):
    one = fitted().calibrate()
    one.save(tmp_path)
    path = tmp_path / 'debiaser.json'
    facts = json.loads(path.read_text())
    from mmvtr.storage import read_tensors, write_tensors

    held = read_tensors(tmp_path / 'debiaser.safetensors', kind='debiaser')
    del held['generations'], facts['content']['generations'], facts['width'], facts['generations']
    write_tensors(held, tmp_path / 'debiaser.safetensors')
    path.write_text(json.dumps(dict(facts, version=1)))
    two = mmvtr.Debiaser.load(tmp_path, VIDEOS)
    assert np.array_equal(two.scores(TEXTS), one.scores(TEXTS)) and two.stale_ == (0, 0, 0)
    two.add(VIDEOS[:10], ids=[f'n{i}' for i in range(10)])
    assert '10% of the items were added after the calibration' in two.why_
    assert mmvtr.Debiaser.load(tmp_path).query(TEXTS).shape == (20, 13)


def test_rows_in_parts_of_any_type(tmp_path):
    one = fitted()
    whole = one.as_vectors()
    assert np.array_equal(one.as_vectors(slice(20, 50)), whole[20:50])
    assert np.array_equal(one.as_vectors([7, 3]), whole[[7, 3]])
    assert np.array_equal(one.as_vectors(one.generations_ > one.generation_), whole[:0])
    assert np.array_equal(one.as_vectors(dtype='f2'), whole.astype('f2'))
    bfloat16 = pytest.importorskip('ml_dtypes').bfloat16
    assert np.array_equal(one.as_vectors(dtype=bfloat16), whole.astype(bfloat16))
    out = np.lib.format.open_memmap(tmp_path / 'x.npy', 'w+', np.float16, (90, 13))
    assert one.as_vectors(out=out) is out and np.array_equal(out, whole.astype('f2'))
    for bad, error in (
        (dict(out=out[:5]), ValueError),
        (dict(rows=[90]), IndexError),
        (dict(rows=[0.5]), TypeError),
        (dict(videos=VIDEOS), ValueError),
    ):
        with pytest.raises(error):
            one.as_vectors(**bad)


def test_bfloat16_of_ml_dtypes(tmp_path):
    bfloat16 = pytest.importorskip('ml_dtypes').bfloat16
    videos = VIDEOS.astype(bfloat16)
    one = mmvtr.fit(videos, ASKED.astype(bfloat16), 'nnn')
    two = mmvtr.fit(videos.astype('f4'), ASKED.astype(bfloat16).astype('f4'), 'nnn')
    found = one.search(TEXTS.astype(bfloat16), 5)
    expected = two.search(TEXTS.astype(bfloat16).astype('f4'), 5)
    assert np.array_equal(found.ids, expected.ids) and found.debiased.dtype == np.float32
    np.testing.assert_allclose(found.debiased, expected.debiased, atol=1e-6)


class Engine(dict):
    """Somebody's index: id -> (generation, row)."""

    def write(self, one, ids):
        rows = one.rows_of(ids)
        for x, made, row in zip(ids, one.generations_[rows].tolist(), one.as_vectors(rows)):
            self[x] = made, row

    def behind(self, one):
        return one.behind([*self], [made for made, _ in self.values()])


def test_an_engine_is_told_which_rows_to_write():
    one, engine = fitted(rows=slice(60)), Engine()
    assert engine.behind(one).missing == IDS[:60]
    engine.write(one, IDS[:60])
    assert engine.behind(one) == ([], [], [])
    one.calibrate()  # changes no row
    assert engine.behind(one) == ([], [], [])
    one.add(VIDEOS[60:62], ids=IDS[60:62]).remove(['v4']).update(VIDEOS[:1], ids=['v9'])
    found = engine.behind(one)
    assert found == (['v9'], ['v4'], ['v60', 'v61'])
    later = one.ids_[(one.generations_ > 1).numpy()].tolist()  # or without a listing
    assert {*later} == {'v9', 'v60', 'v61'}
    for x in found.removed:
        del engine[x]
    engine.write(one, found.changed + found.missing)
    assert engine.behind(one) == ([], [], [])
    rows = np.stack([engine[x][1] for x in one.ids_])
    np.testing.assert_allclose(one.query(TEXTS) @ rows.T, one.scores(TEXTS), atol=1e-5)
    one.refit(ASKED[:40])
    engine.write(one, IDS[:3])  # killed in the midst: mixed
    found = engine.behind(one)
    assert {*found.changed} == {*one.ids_} - {*IDS[:3]} and not found.removed + found.missing


def test_searches_during_any_change_are_of_one_state(tmp_path):
    """Each list is that of the state before a change or after it."""
    one, stop, wrong, seen = fitted(rows=slice(60)).calibrate(), threading.Event(), [], []
    lock = threading.Lock()

    def answer(of):
        found = of.search(TEXTS[:3], 4)
        probability = None if found.probabilities is None else found.probabilities.tobytes()
        return str(found.ids.tolist()), found.debiased.tobytes(), probability

    known = {answer(one)}

    def look():
        while not stop.is_set():
            try:
                found = answer(one)
                one.as_vectors()
                with lock:
                    seen.append(found)
            except Exception as error:  # noqa: BLE001 - whatever it is
                wrong.append(error)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for x in threads:
        x.start()
    for i in range(60, 72, 3):
        changes = [
            dict(call='add', videos=VIDEOS[i : i + 1], ids=IDS[i : i + 1]),
            dict(call='remove', ids=[IDS[i - 60]]),
            dict(call='update', videos=VIDEOS[i - 30 : i - 29], ids=IDS[i : i + 1]),
        ]
        changes += [dict(call='refit', bank=BANK)] * (i % 6 == 0) + [dict(call='calibrate')]
        for how in changes:
            call = how.pop('call')
            known.add(answer(getattr(copy.copy(one), call)(**how)))
            getattr(one, call)(**how)
            one.save(tmp_path)
    stop.set()
    for x in threads:
        x.join()
    assert not wrong and len(seen) > 20
    assert {*seen} <= known


def test_a_bank_that_waits_for_its_gallery_starts_no_new_count():
    one = fitted()
    known, biases = one.generations_, one.biases_
    one.fit(None, (ASKED[:40], SEEN[:40])).fit(VIDEOS, ids=IDS, bank=(ASKED[:40], SEEN[:40]))
    assert not torch.equal(one.biases_, biases) and one.generation_ > max(known)
    assert [*one.behind(IDS, known).changed] == IDS
