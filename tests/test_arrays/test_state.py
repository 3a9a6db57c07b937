"""A Debiaser's state: saved and read it goes on as before, whatever the transform and its options;
what happens to a calibration when items are added; searches beside changes."""

import threading
from collections import Counter

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr.arrays.inputs import Bank, Vectors
from mmvtr.arrays.shift import Asked
from mmvtr.arrays.state import State
from mmvtr.arrays.topk_probabilities import TopKProbabilities
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform_table import OF_BANK, TRANSFORMS

RANDOM = np.random.default_rng(0)
VIDEOS = (RANDOM.normal(size=(130, 12)) + 0.8).astype('f4')
SEEN = (RANDOM.normal(size=(70, 12)) + 0.8).astype('f4')
ASKED = (SEEN + RANDOM.normal(size=(70, 12)) + 0.5).astype('f4')
TEXTS = (VIDEOS[:20] + RANDOM.normal(size=(20, 12)) + 0.5).astype('f4')
OFTEN = np.r_[:70, :20, :20, 3]
BANK = (ASKED[OFTEN], SEEN[OFTEN])
OTHER = (ASKED[::-1].copy(), SEEN[::-1].copy())
NEEDED = dict(hedged_scaling=dict(first=-0.3, strength=0.6))
#: A value of each option that is not its default, as a user may have it.
VALUES = dict(
    temperature=np.float32(0.07),
    item_temperature=np.float64(0.3),
    iterations=np.int64(3),
    tolerance=0.01,
    bank_marginals=np.arange(1, 71) / np.arange(1, 71).sum(),
    marginal_penalty=torch.tensor(0.5),
    neighbours=7,
    alpha=-0.2,
    strength=0.3,
    first=0.2,
    places=2,
    share=0.2,
    dynamic=False,
)
CASES = [('auto', None), (None, None)] + [
    (name, option) for name in OF_BANK for option in (None, *TRANSFORMS[name].options)
]


def fitted(name, option, videos=VIDEOS):
    options = dict(NEEDED.get(name, {}), **({} if option is None else {option: VALUES[option]}))
    return mmvtr.fit(videos, BANK, name, ids=[f'v{i}' for i in range(len(videos))], **options)


def leaves(x, where=''):
    """All parts of a state, by where they are."""
    if isinstance(x, Bank):
        x = vars(x)
    if hasattr(x, '_asdict'):
        x = x._asdict()
    if isinstance(x, dict):
        for name, part in sorted(x.items()):
            yield from leaves(part, f'{where}.{name}')
    else:
        yield where, x


def assert_alike(one, two):
    """Every part, whatever it is called: one that saving forgets is seen here."""
    assert (one.transform, one.geometry, one.seed) == (two.transform, two.geometry, two.seed)
    states = [x._state._replace(gallery=None, ids=list(x._state.ids)) for x in (one, two)]
    for (where, a), (there, b) in zip(
        *([*leaves(x), *leaves(y.options)] for x, y in zip(states, (one, two))), strict=True
    ):
        same = torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        assert where == there and type(a) is type(b) and same, where


@pytest.mark.parametrize('name, option', CASES)
def test_saved_and_read_it_goes_on(name, option, tmp_path):
    one = fitted(name, option, VIDEOS[:100]).calibrate()
    one.save(tmp_path)
    two = mmvtr.Debiaser.load(tmp_path, VIDEOS[:100])
    assert_alike(one, two)
    for x in (one, two):
        x.add(VIDEOS[100:], ids=[f'v{i}' for i in range(100, 130)])
    assert_alike(one, two)
    a, b = (x.search(TEXTS, 5) for x in (one, two))
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.probabilities, b.probabilities)
    for x in (one, two):
        x.refit(OTHER)
    assert_alike(one, two)
    assert one.calibration_ is None and 'the calibration of the former biases is gone' in one.why_
    assert np.array_equal(one.scores(TEXTS), two.scores(TEXTS))


def test_an_option_by_its_former_name_is_read(tmp_path):
    ours = mmvtr.fit(VIDEOS, BANK, 'unbalanced_sinkhorn', marginal_penalty=0.5)
    ours.save(tmp_path)
    path = tmp_path / 'debiaser.json'
    path.write_text(path.read_text().replace('marginal_penalty', 'strictness'))
    again = mmvtr.Debiaser.load(tmp_path, VIDEOS)
    assert 'strictness' not in {**again.options, **again.options_}
    assert torch.equal(again.refit(BANK).biases_, ours.biases_)
    with pytest.raises(ValueError, match="not 'strictness': it is marginal_penalty now"):
        mmvtr.fit(VIDEOS, BANK, 'unbalanced_sinkhorn', strictness=0.5)


def test_every_part_is_compared():
    one = fitted('sinkhorn', None).calibrate()
    found = Counter(where.split('.')[1] for where, _ in leaves(one._state))
    parts = len(TopKProbabilities._fields) - 1 + len(Asked._fields)
    assert found['bank'] == len(vars(one.bank_)) and found['calibration'] == parts
    assert found['fitted'] >= len(ItemBiases._fields) and set(found) == set(State._fields)
    with pytest.raises(AssertionError, match='counts'):
        two = fitted('sinkhorn', None).calibrate()
        two._state.bank.counts[0] += 1
        assert_alike(one, two)


@pytest.mark.parametrize('name', [None, *OF_BANK])
def test_add_keeps_the_calibration_and_says_what_it_has_not_seen(name):
    one = fitted(name, None, VIDEOS[:100]).calibrate()
    before = one.calibration_
    assert 'after the calibration' not in one.why_
    one.add(VIDEOS[100:], ids=[f'v{i}' for i in range(100, 130)])
    assert one.calibration_ is before and one.search(TEXTS, 3).probabilities is not None
    said = '23% of the items were added after the calibration of P(right)'
    assert said in one.why_ and said in one.search(TEXTS, 3).why
    assert 'after the calibration' not in one.calibrate().why_


def test_stores_keep_it_and_say_so(tmp_path, monkeypatch):
    pytest.importorskip('faiss')
    created = pytest.importorskip('mmvtr_gallery.store').create_store
    said = []
    monkeypatch.setattr(
        'mmvtr_gallery.store.protocol.print_log', lambda text, *_: said.append(text)
    )
    with created(tmp_path / 's', 12) as store:
        store.add([str(i) for i in range(100)], VIDEOS[:100])
        store.refit(ASKED, items=SEEN, transform='nnn', paired=True, probabilities=True, fewer=True)
        before = store.topk_probabilities
        store.add([str(i) for i in range(100, 130)], VIDEOS[100:])
        assert store.topk_probabilities is before and before.items == 100
        assert '23% of the items were added after the fit, 0% of the fitted' in said[-1]
        drift = mmvtr.fit(VIDEOS[:100], ASKED, 'nnn').add(VIDEOS[100:]).stale_.drift
        assert store.stale == pytest.approx((30 / 130, 0, drift), abs=1e-4)
        store.persist()
        store.delete([str(i) for i in range(10)])
        assert store.stale[:2] == pytest.approx((30 / 120, 0.1))
        store.undo()
        assert store.stale[:2] == pytest.approx((30 / 130, 0))
        store.add(['0'], VIDEOS[:1], removing=['0'])
        assert store.stale[:2] == pytest.approx((31 / 130, 0.01))
        store.refit(ASKED, transform='csls', fewer=True)
        assert store.stale == (0, 0, 0)
        store.refit(transform=None)
        assert store.stale is None


@pytest.mark.parametrize('call', ['fit', 'refit', 'add'])
def test_what_fails_changes_nothing(call):
    one = fitted('nnn', None).calibrate()
    before = one._state
    bad = dict(
        fit=lambda: one.fit(VIDEOS[:50], ASKED[:, :3]),
        refit=lambda: one.refit(ASKED * np.nan),
        add=lambda: one.add(VIDEOS[:2], ids=['v0', 'new']),
    )
    with pytest.raises(ValueError):
        bad[call]()
    assert one._state is before


def test_searches_beside_changes():
    """A search sees the state before a change or after it."""
    one, wrong, stop = fitted('sinkhorn', None, VIDEOS[:60]), [], threading.Event()

    def look():
        while not stop.is_set():
            try:
                one.search(TEXTS, 5)
            except Exception as error:  # noqa: BLE001 - whatever it is
                wrong.append(error)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for x in threads:
        x.start()
    for i in range(60, 110):
        one.add(VIDEOS[i : i + 1], ids=[f'v{i}'])
        if i % 10 == 0:
            one.refit(BANK)
    stop.set()
    for x in threads:
        x.join()
    assert not wrong


@pytest.mark.parametrize('call', ['as_vectors', 'save', 'search'])
def test_a_change_in_the_midst_is_not_seen(call, tmp_path, monkeypatch):
    one = fitted('sinkhorn', None, VIDEOS[:100]).calibrate()
    before, why, unit = one.as_vectors(), one.why_, Vectors.unit

    def changed(gallery, *part):
        monkeypatch.setattr(Vectors, 'unit', unit)
        one.add(VIDEOS[100:], ids=[f'v{i}' for i in range(100, 130)])
        return unit(gallery, *part)

    monkeypatch.setattr(Vectors, 'unit', changed)
    if call == 'as_vectors':
        assert np.array_equal(one.as_vectors(), before)
    elif call == 'search':
        assert one.search(TEXTS, 3).why == why
    else:
        one.save(tmp_path)
        assert np.array_equal(mmvtr.Debiaser.load(tmp_path, VIDEOS[:100]).as_vectors(), before)
    assert len(one) == 130


@pytest.mark.parametrize('more', ['x', 0.5, np.int64(7), np.str_('x'), ('a', 1), frozenset('a')])
def test_ids_come_back_as_they_were_or_are_refused(more, tmp_path):
    ids = [more, *map(str, range(59))]
    one = mmvtr.fit(VIDEOS[:60], BANK, 'csls', ids=ids)
    if isinstance(more, (tuple, frozenset)):
        with pytest.raises(TypeError, match='texts or numbers to be saved'):
            one.save(tmp_path)
        assert not [*tmp_path.iterdir()]
    else:
        one.save(tmp_path)
        assert mmvtr.Debiaser.load(tmp_path, VIDEOS[:60])._state.ids.tolist() == ids


def test_changed_takes_arrays():
    one = fitted('sinkhorn', None)
    scores = RANDOM.normal(size=(3, 130)).astype('f4')
    found = one.transform_scores(scores)
    assert isinstance(found, np.ndarray) and np.allclose(found, scores + one.biases_.numpy())
    assert one.transform_scores(torch.tensor(scores).half()).dtype == torch.float32
    for bad, said in (
        (scores[:, :5], r'\[3, 5\] must be \[queries, 130\]'),
        (scores * np.nan, 'nan'),
    ):
        with pytest.raises(ValueError, match=said):
            one.transform_scores(bad)
