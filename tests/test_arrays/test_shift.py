"""Queries that are not like the bank's are noticed, and others hardly ever said to be."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.stats import binom, ks_2samp

import mmvtr
from mmvtr.arrays.answers import NEEDED
from mmvtr.arrays.inputs import read_bank
from mmvtr.arrays.shift import (
    DEPTH,
    ERROR,
    FEWEST_QUERIES,
    FIGURES,
    Asked,
    Shift,
    figures,
    shift_of,
)

WIDTH = 24


def pairs(random, count, texts=1):
    """Texts and items, ``texts`` of an item in a row; some items are near to every text."""
    content = random.normal(size=(count, WIDTH))
    height = np.exp(random.normal(size=(count, 1)))
    items = np.hstack([content + random.normal(size=content.shape), 2 * height])
    content = content.repeat(texts, 0)
    asked = np.hstack([content + random.normal(size=content.shape), np.full((len(content), 1), 5)])
    return asked.astype('f4'), items.repeat(texts, 0).astype('f4')


def noisy(random, texts, strength=1.0):
    noise = np.hstack([random.normal(size=(len(texts), WIDTH)), np.zeros((len(texts), 1))])
    return (texts + strength * noise).astype('f4')


def unit(x):
    return torch.nn.functional.normalize(torch.from_numpy(x), dim=1)


def compared(texts, items, bank, seed=0):
    """What a search says of the shift, without the calibration that it goes with."""
    asked = Asked.of(bank, torch.Generator().manual_seed(seed))
    texts, items = unit(texts), unit(items)
    known = asked.figures((bank.texts[asked.rows] @ items.t()).topk(DEPTH).values, len(items))
    return shift_of(texts, figures((texts @ items.t()).topk(DEPTH).values), known)


def one_to_one(random):
    (texts, items), bank = pairs(random, 150), pairs(random, 150)
    return texts, items, bank


def five_texts_an_item(random):
    """One of them asks; the bank has all five."""
    (texts, items), bank = pairs(random, 150), pairs(random, 150, texts=5)
    return texts, items, bank


def items_that_ask(random):
    """Each query has three right items, all of them in the gallery, which is as large as the
    bank's."""
    (items, texts), (known, own) = pairs(random, 150, texts=3), pairs(random, 150, texts=3)
    return texts[::3], items, (own, known)


def bank_of_the_gallery(random):
    """The bank asks for half of the items of the gallery, whose other texts are served."""
    texts, items = pairs(random, 200, texts=2)
    others = pairs(random, 100)
    bank = [np.concatenate(x) for x in zip((texts[:200:2], items[:200:2]), others)]
    return texts[1::2], items[::2], tuple(bank)


@pytest.mark.parametrize(
    'draw',
    [
        *(one_to_one, five_texts_an_item),
        *(
            pytest.param(draw, marks=pytest.mark.nightly)
            for draw in (items_that_ask, bank_of_the_gallery)
        ),
    ],
)
def test_queries_like_the_bank_alarm_no_more_often_than_stated(draw):
    """Of 200 banks, galleries and queries; beyond the bound in 1 of 100 such counts at most."""
    alarms = 0
    for seed in range(200):
        texts, items, bank = draw(np.random.default_rng(seed))
        alarms += compared(texts, items, read_bank(bank, None, 'cosine'), seed).noticed
    assert alarms <= binom.ppf(0.99, 200, ERROR)


def calibrated(seed=0, transform=None, count=200):
    random = np.random.default_rng(seed)
    texts, items = pairs(random, count)
    return mmvtr.fit(items, pairs(random, count), transform).calibrate(), texts, random


@pytest.mark.parametrize('transform', [None, 'sinkhorn', 'qb_norm'])
def test_noisy_queries_are_noticed_and_refused_if_asked(transform):
    fitted, texts, random = calibrated(transform=transform)
    same, other = fitted.search(texts, 3), fitted.search(noisy(random, texts), 3)
    assert not same.shift.noticed and 'not like' not in same.why
    assert other.shift.noticed and str(other.shift) in other.why
    assert 'P may be too high' in other.why
    assert fitted.search(texts, 3, strict=True).ids.shape == (200, 3)
    with pytest.raises(ValueError, match="not like the bank's"):
        fitted.search(noisy(random, texts), 3, strict=True)
    with pytest.raises(ValueError, match="no threshold: these queries are not like the bank's"):
        fitted.calibration_.threshold(0.3, shift=other.shift)
    fitted.calibration_.answers(0.3)


def test_queries_for_what_is_not_there_are_noticed():
    random = np.random.default_rng(0)
    items, own = (pairs(random, 400)[1] for _ in range(2))
    texts, asked = (x + random.normal(size=x.shape).astype('f4') for x in (items, own))
    bank = read_bank((asked, own), None, 'cosine')
    assert not compared(texts, items, bank).noticed
    assert compared(texts[:200], items[200:], bank).noticed


def test_a_grown_gallery_is_no_shift_of_queries():
    """What the bank finds is computed again after a change, whichever call changed it."""
    fitted, texts, random = calibrated()
    assert not fitted.search(texts, 1).shift.noticed
    grown = copy.copy(fitted).add(pairs(random, 3000)[1])
    assert not grown.search(texts, 1).shift.noticed
    stale = copy.copy(grown)
    stale._of_bank = (stale._state.gallery, stale.calibration_, fitted._of_bank[2])
    assert stale.search(texts, 1).shift.noticed
    assert not fitted.search(texts, 1).shift.noticed


def test_lists_of_any_length_are_those_of_a_search_without_comparison():
    fitted, texts, _ = calibrated(transform='sinkhorn')
    for k in (1, 3, 30):
        whole = fitted.search(texts, k)
        parts = [fitted.search(part, k) for part in np.array_split(texts, 4)]
        assert whole.shift is not None and parts[0].shift is None
        for name in ('ids', 'scores', 'debiased', 'probabilities', 'any_right'):
            joined = np.concatenate([getattr(x, name) for x in parts])
            assert np.allclose(getattr(whole, name), joined, atol=1e-6), name
    assert whole.hubs.most_raw == fitted.search(texts, 30).hubs.most_raw


def test_nothing_is_said_where_nothing_is_known():
    fitted, texts, random = calibrated()
    assert fitted.search(texts[: FEWEST_QUERIES - 1], 1).shift is None
    assert fitted.search(np.repeat(texts[:50], 4, 0), 1).shift is None  # fifty different ones
    fitted.keep(None)
    assert fitted.search(texts, 1).shift is None
    few = mmvtr.fit(pairs(random, DEPTH - 1)[1], pairs(random, 100), None).calibrate()
    assert few.search(texts, 1).shift is None


def test_saved_and_read_it_notices_the_same(tmp_path):
    random = np.random.default_rng(1)
    texts, items = pairs(random, 150)
    fitted = mmvtr.fit(items, pairs(random, 150), None).calibrate()
    fitted.save(tmp_path)
    read = mmvtr.Debiaser.load(tmp_path, items)
    for queries in (texts, noisy(random, texts)):
        assert read.search(queries, 1).shift == fitted.search(queries, 1).shift


def test_distances_are_scipys_and_chance_is_bounded():
    random = np.random.default_rng(0)
    served, bank = random.normal(size=(130, 3)), random.normal(0.2, size=(170, 3)).round(1)
    found = shift_of(torch.arange(130.0)[:, None], *map(torch.from_numpy, (served, bank)))
    expected = [ks_2samp(x, y).statistic for x, y in zip(served.T, bank.T)]
    assert found.distances == pytest.approx(expected, abs=1e-12)
    assert (found.queries, found.bank) == (130, 170)
    t = found.chance * math.sqrt(130 * 170 / 300)
    assert 2 * math.exp(-2 * t * t) == pytest.approx(ERROR / len(FIGURES))


def test_what_is_said_names_the_figure():
    said = str(Shift((0.1, 0.4, 0.2), 0.15, 300, 200))
    assert said.startswith("these queries are not like the bank's, P may be too high: ")
    assert 'its lead over the second of 300 queries' in said and '0.40 away' in said
    assert str(Shift((0.1, 0.1, 0.1), 0.15, 300, 200)).startswith('nothing says that')


def test_a_threshold_says_what_it_needs():
    """As many pairs as it says are enough in most banks, half as many are not."""
    small, _, _ = calibrated(count=60)
    with pytest.warns(UserWarning, match='no query can be answered at precision 0.8 .* 60 pairs'):
        assert small.calibration_.threshold(0.8) == math.inf


def easy(random, count):
    """Lists of 20 whose first place is right with the probability of its share."""
    shares = random.random(count) ** 0.25
    rest = np.log((1 - shares) / 19)
    scores = torch.tensor(np.hstack([np.log(shares)[:, None], rest[:, None].repeat(19, 1)]))
    right = torch.zeros(count, 20, dtype=torch.bool)
    first = torch.tensor(random.random(count) < shares)
    right[torch.arange(count), torch.where(first, 0, 1 + torch.arange(count) % 19)] = True
    return mmvtr.arrays.calibrate_topk(scores, right, seed=0)


def test_as_many_pairs_as_are_said_suffice():
    """Of the median of what banks of 120 pairs say; a quarter of it does not."""
    said = [easy(np.random.default_rng(seed), 120).answers(0.9) for seed in range(20)]
    needed = int(np.median([x.needed or NEEDED for x in said]))
    enough, few = (
        np.mean([easy(np.random.default_rng(seed), n).answers(0.9).share > 0 for seed in range(60)])
        for n in (needed, needed // 4)
    )
    assert enough > 0.75 and few < 0.5
    assert all(0 < x.then <= 1 for x in said if x.needed)


def test_a_precision_that_no_number_of_pairs_gives():
    random = np.random.default_rng(0)
    scores, right = torch.tensor(random.normal(size=(400, 20))), torch.zeros(400, 20).bool()
    right[torch.arange(400), torch.tensor(random.integers(20, size=400))] = True
    found = mmvtr.arrays.calibrate_topk(scores, right).answers(0.9)
    assert (found.threshold, found.share, found.needed, found.then) == (math.inf, 0.0, None, None)
    assert f'nor does their P promise it from {NEEDED}' in str(found)


def test_pairs_that_are_not_read_are_not_promised():
    found = easy(np.random.default_rng(0), 120).answers(0.9)
    assert 'at most' not in str(found)
    assert 'at most 50 are read' in str(found._replace(most=50))
