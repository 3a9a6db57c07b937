"""A calibration beside the biases: kept with them, of their scores, and gone with them."""

import json
import math

import numpy as np
import pytest
import torch

from mmvtr.functional.uncertainty.calibration import Calibration
from mmvtr.storage.digests import ROOM, write_with_digest
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.drift import served_shift
from stores import NEEDS, empty_store, of_other_process

pytestmark = pytest.mark.filterwarnings('ignore:Local mode performs exact')
DIM = 6
GRID = torch.linspace(-1, 1, 9, dtype=torch.float64)
BOUNDS = GRID.clamp_min(0), GRID.new_ones(9)


def platt(slope=8.0, offset=-2.0, **more):
    return Calibration('platt', torch.tensor([slope, offset]), GRID, *BOUNDS, **more)


def vectors(seed, count):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


#: Lists of hundreds of videos take the local Qdrant seconds.
LONG_LISTS = pytest.mark.parametrize(
    'store', ['faiss', pytest.param('qdrant', marks=pytest.mark.nightly)], indirect=True
)


@pytest.fixture(params=NEEDS)
def store(request, tmp_path):
    with empty_store(request.param, tmp_path, DIM) as found:
        found.add([f'v{i}' for i in range(20)], vectors(1, 20))
        found.persist()
        yield found


def hits_of(store, **options):
    return store.search(vectors(9, 1), 20, **options)[0]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize('debiased', [False, True])
def test_p_match_of_raw_and_of_debiased_scores(store, debiased):
    assert store.calibration is None and store.p_match(hits_of(store)) is None
    if debiased:
        store.refit(vectors(2, 30), temperature=0.5)
    with store.kept():
        store.calibrate(platt(debiased=debiased))
    for one in (store, of_other_process(store)):
        for transform in (True, False):
            hits = hits_of(one, transform=transform)
            assert debiased == any(abs(hit.item.bias) > 0.01 for hit in hits)
            expected = [sigmoid(8 * (h.raw + debiased * h.item.bias) - 2) for h in hits]
            np.testing.assert_allclose(one.p_match(hits), expected, atol=1e-6)
    assert store.p_match([]) == []
    store.calibrate(None)
    assert store.calibration is None and store.p_match(hits) is None


def test_of_one_among_ten_in_a_gallery_of_twenty(store):
    store.calibrate(platt(candidates=10))
    hits = hits_of(store)
    expected = [1 / (1 + math.exp(2 - 8 * hit.raw) * 19 / 9) for hit in hits]
    np.testing.assert_allclose(store.p_match(hits), expected, atol=1e-6)
    assert store.threshold(0.6) >= platt().threshold(0.6)


def test_hits_that_are_precise_enough(store):
    store.calibrate(platt())
    least = store.threshold(0.7)
    assert least == platt().threshold(0.7) and math.isfinite(least)
    hits = hits_of(store, transform=False)
    assert store.accepted(hits, 0.7) == [hit for hit in hits if hit.raw >= least]
    store.calibrate(platt(offset=-90.0))
    assert store.threshold(0.7) == pytest.approx((math.log(7 / 3) + 90) / 8)
    assert store.accepted(hits, 0.7) == []
    store.calibrate(None)
    with pytest.raises(ValueError, match='no calibration'):
        store.accepted(hits, 0.7)


def warned(log):
    said = [text for text in log if 'calibration belonged to' in text]
    log.clear()
    return len(said)


@pytest.fixture
def log(monkeypatch):
    said = []
    monkeypatch.setattr('mmvtr_gallery.store.refits.print_log', lambda text, *_: said.append(text))
    return said


def test_a_refit_drops_what_is_of_raw_scores_and_undo_brings_it_back(store, log):
    store.calibrate(platt())
    store.refit(transform=None)
    assert store.calibration is not None and not warned(log)
    store.refit(vectors(2, 30), temperature=0.5)
    assert store.calibration is None and warned(log) == 1
    with pytest.raises(ValueError, match='for raw scores, but biases rank'):
        store.calibrate(platt())
    store.undo()
    assert of_other_process_persisted(store).calibration.fitted.tolist() == [8, -2]


def of_other_process_persisted(store):
    store.persist()
    return of_other_process(store)


def test_a_refit_drops_what_is_of_old_biases_and_undo_brings_it_back(store, log):
    store.refit(vectors(2, 30), temperature=0.5)
    store.calibrate(platt(debiased=True))
    store.refit(vectors(3, 30), temperature=0.5)
    assert store.calibration is None and warned(log) == 1
    store.undo()
    assert store.calibration.debiased and not warned(log)
    store.undo()  # the refit is there again
    assert of_other_process_persisted(store).calibration is None and warned(log) == 1
    store.calibrate(platt(debiased=True))
    store.refit(transform=None)
    assert store.calibration is None and warned(log) == 1


def paired(random, count):
    """Texts and videos [count, DIM]; a tenth of the videos lie near everything."""
    seen = (
        random.normal(size=(count, DIM)) + np.where(np.arange(count) % 10 == 0, 1.5, 0.3)[:, None]
    )
    return seen + 0.9 * random.normal(size=seen.shape), seen


@LONG_LISTS
def test_places_of_lists(store):
    """What is shown beside a place is true of lists, and goes with the biases that rank them."""
    random = np.random.default_rng(3)
    (texts, videos), (asked, seen) = paired(random, 150), paired(random, 300)
    names = [str(i) for i in range(150)]
    store.add(names, videos, removing=[f'v{i}' for i in range(20)])
    store.refit(asked, items=seen, paired=True, probabilities=True)
    store.persist()
    for one in (store, of_other_process(store)):
        lists = one.search(texts, 5, record=False)
        said = np.array([one.p_match(hits, row) for row, hits in zip(texts, lists)])
        right = np.array([[x.item.id == own for x in hits] for own, hits in zip(names, lists)])
        assert said.shape == (150, 5) and abs(said[:, 0].mean() - right[:, 0].mean()) < 0.08
        assert abs(said.sum(1).mean() - right.any(1).mean()) < 0.08
        sure = max(range(150), key=lambda row: said[row, 0])
        kept = one.accepted(lists[sure], 0.3, texts[sure])
        least = one.topk_probabilities.threshold(0.3)
        assert math.isfinite(least) and len(kept) == sum(x >= least for x in said[sure])
        with pytest.raises(ValueError, match='not the first of a search'):
            one.p_match(lists[0][1:], texts[0])
        assert one.p_match(lists[0]) is None  # without the query nothing is known of the list
    store.refit(asked, transform='sinkhorn')
    assert store.topk_probabilities is None
    store.undo()
    assert store.topk_probabilities is not None
    with pytest.raises(ValueError, match='too few'):
        store.refit(asked[:30], items=seen[:30], paired=True, probabilities=True, fewer=True)


@LONG_LISTS
def test_served_queries_that_are_not_like_the_bank(store):
    """A reader of the same store says the same; a gallery that has grown is no shift."""
    random = np.random.default_rng(3)
    (texts, videos), (asked, seen) = paired(random, 150), paired(random, 300)
    store.add([str(i) for i in range(150)], videos, removing=[f'v{i}' for i in range(20)])
    store.refit(asked, items=seen, paired=True, probabilities=True)
    assert served_shift(store) is None  # no sample
    store.keep_queries(dict(capacity=200, memory=200))
    store.search(texts[:99], 1)
    assert served_shift(store) is None
    store.search(texts[:150], 1)
    quiet = served_shift(store)
    assert not quiet.noticed and 100 <= quiet.queries <= 200 and quiet.bank == 300
    more = paired(random, 150)[1]
    store.add([f'more{i}' for i in range(150)], more)
    assert not served_shift(store).noticed
    hits = store.search(texts[:1], 3, record=False)[0]
    assert store.accepted(hits, 0.05, texts[0], shift=quiet) == store.accepted(hits, 0.05, texts[0])
    store.search(1 + random.normal(size=(200, DIM)) / 5, 1)
    loud = served_shift(store)
    assert loud.noticed and "not like the bank's" in str(loud)
    with pytest.raises(ValueError, match="no threshold: these queries are not like the bank's"):
        store.accepted(hits, 0.05, texts[0], shift=loud)
    store.persist()
    read, kept = of_other_process(store).topk_probabilities, store.topk_probabilities
    assert read.asked.items == kept.asked.items and read.most == kept.most
    assert torch.equal(read.asked.rows, kept.asked.rows)
    assert torch.allclose(read.asked.own, kept.asked.own)


@LONG_LISTS
def test_places_of_equal_videos(store):
    """Of equal scores a longer list may have another one first."""
    random = np.random.default_rng(4)
    (texts, videos), (asked, seen) = paired(random, 150), paired(random, 300)
    twice = np.concatenate([videos, videos])
    store.add([str(i) for i in range(300)], twice, removing=[f'v{i}' for i in range(20)])
    store.refit(asked, items=seen, paired=True, probabilities=True, fewer=True)
    for k in (1, 5, 9):
        for row, hits in zip(texts[:20], store.search(texts[:20], k, record=False)):
            assert len(store.p_match(hits, row)) == k


def test_a_refit_by_auto_ignores_options_that_are_none(store):
    """As the service gives them."""
    asked = paired(np.random.default_rng(5), 60)[0]
    store.refit(asked, transform='auto', temperature=None, marginal_penalty=None, fewer=True)
    assert store.last_refit['asked'] == 'auto'
    store.refit(asked, transform='same', temperature=None, fewer=True)
    assert store.last_refit['asked'] == 'auto'


def test_what_comes_and_goes_changes_no_calibration(store):
    store.calibrate(platt())
    with store.kept():
        store.add(['new'], vectors(4, 1), removing=['v3'])
    assert of_other_process(store).calibration.to_dict() == json.loads(
        json.dumps(platt().to_dict())
    )


def test_what_is_refused_changes_nothing(store):
    store.calibrate(platt())
    one = torch.ones(1)
    for wrong, error, words in (
        (platt(debiased=True), ValueError, 'no biases'),
        (Calibration('temperature', one, one, one, one), ValueError, 'all items'),
        (platt().to_dict(), TypeError, 'must be a Calibration'),
    ):
        with pytest.raises(error, match=words):
            store.calibrate(wrong)
    store.persist()
    reader = of_other_process(store)
    with pytest.raises(PermissionError):
        reader.calibrate(None)
    assert reader.calibration.fitted.tolist() == [8, -2]


def test_a_change_that_fails_keeps_the_old_one(tmp_path, monkeypatch):
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM) as store:
        store.add(['a'], vectors(1, 1))
        store.calibrate(platt())
        store.persist()
        with monkeypatch.context() as patch:

            def broken(*args):
                raise OSError(28, 'No space left on device')

            patch.setattr('mmvtr_gallery.store.manifest.Manifest.write', broken)
            with pytest.raises(OSError, match='No space'), store.kept():
                store.calibrate(platt(slope=1.0))
        for one in (store, open_store(tmp_path)):
            assert one.calibration.fitted.tolist() == [8, -2]


def rewrite(folder, said):
    """A manifest with a digest that holds."""
    text = json.dumps({'sha256': ROOM, **{k: x for k, x in said.items() if k != 'sha256'}})
    with open(folder / 'store.json', 'wb') as file:
        write_with_digest(text.encode(), file)


def damaged(**changes):
    return {**platt().to_dict(), **changes}


@pytest.mark.parametrize(
    'value',
    [
        3,
        {},
        damaged(method='pickle'),
        damaged(method='temperature', fitted=[1.0], lower=[1.0], upper=[1.0]),
        damaged(fitted=[1.0, float('nan')]),
        damaged(fitted='8'),
        damaged(scores=[[1.0]]),
        damaged(lower=[1.0]),
        damaged(debiased='no'),
        damaged(candidates=0),
        damaged(candidates=2.5),
    ],
)
def test_what_a_stranger_wrote(value, tmp_path):
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM) as store:
        store.add(['a'], vectors(1, 1))
        store.persist()
    said = json.loads((tmp_path / 'store.json').read_text())
    rewrite(tmp_path, {**said, 'calibration': value})
    with pytest.raises(RuntimeError, match='store.json is damaged: calibration is '):
        open_store(tmp_path)
    before = dict(normaliser=None, refit=None, calibration=value)
    rewrite(tmp_path, {**said, 'before': before})
    with pytest.raises(RuntimeError, match='store.json is damaged: before is '):
        open_store(tmp_path, write=True)


def test_a_store_of_before_calibrations_is_read_and_goes_on(tmp_path):
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM) as store:
        store.add(['a', 'b'], vectors(1, 2))
        store.persist()
        store.refit(vectors(2, 9), temperature=0.5)
        store.persist()
    said = json.loads((tmp_path / 'store.json').read_text())
    del said['calibration'], said['before']['calibration']
    rewrite(tmp_path, said)
    with open_store(tmp_path, write=True) as store:
        assert store.calibration is None
        store.undo()
        store.calibrate(platt())
        store.persist()
    assert open_store(tmp_path).calibration is not None
