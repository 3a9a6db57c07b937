"""P(right) beside places: true on lists that were not seen, and a precision that holds."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

import mmvtr
from mmvtr.arrays import calibrate_topk, topk_fitting
from mmvtr.arrays.answers import at_most
from mmvtr.arrays.judged_lists import JudgedLists
from mmvtr.arrays.topk_probabilities import LENGTHS, TopKProbabilities


def pairs(random, count, width=16):
    """Texts and videos; a tenth of the videos lie near everything."""
    videos = (
        random.normal(size=(count, width)) + np.where(np.arange(count) % 10 == 0, 1.5, 0.3)[:, None]
    )
    return (videos + 1.6 * random.normal(size=videos.shape)).astype('f4'), videos.astype('f4')


@pytest.mark.parametrize(
    'name', [None, 'sinkhorn', pytest.param('dbsn', marks=pytest.mark.nightly)]
)
def test_what_is_said_of_the_first_place_is_true(name):
    """Mean of 25 draws: own items outside Sinkhorn's fit would say .03 too little."""
    said, true = [], []
    for seed in range(25):
        random = np.random.default_rng(seed)
        (texts, videos), bank = pairs(random, 120), pairs(random, 120)
        fitted = mmvtr.fit(videos, bank, name).calibrate()
        found = fitted.search(texts, 10)
        said.append([found.probabilities[:, 0].mean(), found.any_right[:, -1].mean()])
        own = found.ids == np.arange(120)[:, None]
        true.append([own[:, 0].mean(), own.any(1).mean()])
    assert np.abs(np.mean(said, 0) - np.mean(true, 0)).max() < 0.02


def calibrated(shares, right):
    levels = torch.tensor(shares).double().quantile(1 - torch.arange(1, 21).double() / 20)
    lines = torch.tensor([[1.0, 0.0]] * len(LENGTHS), dtype=torch.float64)
    return TopKProbabilities(1.0, lines, torch.tensor(shares).double(), torch.tensor(right), levels)


def test_the_precision_fails_no_more_often_than_promised():
    """Of 300 banks of 200 queries whose answers are right with probability = share."""
    random, failed, answered = np.random.default_rng(0), 0, 0
    grid = np.linspace(0, 1, 20001)
    for _ in range(300):
        shares = random.random(200)
        bound = calibrated(shares, random.random(200) < shares).threshold(0.8, error=0.1)
        if bound < math.inf:
            answered += 1
            failed += grid[grid >= bound].mean() < 0.8
    assert answered > 200 and failed < 300 * 0.1 + 3 * (300 * 0.09) ** 0.5


def test_no_answers_where_nothing_is_right():
    shares = np.linspace(0, 1, 200)
    assert calibrated(shares, np.zeros(200, bool)).threshold(0.9) == math.inf
    assert calibrated(shares[:8], np.ones(8, bool)).threshold(0.9) == math.inf  # too few to tell
    assert calibrated(shares, np.ones(200, bool)).threshold(0.9) == pytest.approx(0, abs=1e-9)


def test_a_threshold_answers_the_queries_that_reach_it():
    """Half of the queries have one score, and are right: a coarse score, as of a language model."""
    shares, right = np.full(200, 0.2), np.zeros(200, bool)
    shares[:100], right[:100] = 0.9, True
    assert 0.2 < calibrated(shares, right).threshold(0.8) <= 0.9


def test_the_tail_of_a_binomial_is_scipys():
    for wrong, count, rate in ((0, 9, 0.2), (1, 9, 0.2), (7, 40, 0.1), (40, 40, 0.3)):
        true = binom.cdf(wrong, count, rate)
        assert at_most(wrong, count, rate) == pytest.approx(true, rel=1e-9)


def test_items_without_a_score_add_nothing_beyond_the_longest_line():
    """P of a list stays the same from its place 200 on, whose line has the last say."""
    lines = torch.tensor([[1.0, k / 10] for k in range(len(LENGTHS))], dtype=torch.float64)
    one = calibrated(np.linspace(0, 1, 50), np.ones(50, bool))._replace(lines=lines)
    ranked = torch.full((1, 600), -1e3)
    ranked[0, :200] = 0
    _, any_right = one.places(ranked, torch.tensor([200 * 2.0]).log())  # the 200 have a half
    expected = 1 / (1 + math.exp(-lines[-1, 1]))
    assert any_right[0, 199:].tolist() == pytest.approx([expected] * 401)


def test_surer_lists_that_are_wrong_more_often_have_one_probability():
    """A better score never lowers P(right)."""
    random = np.random.default_rng(2)
    scores = torch.tensor(random.normal(size=(400, 9))).sort(1, descending=True).values
    right = torch.zeros(400, 9, dtype=torch.bool)
    sure = scores[:, 0] - scores[:, 1] > 0.4
    right[torch.arange(400), sure.long()] = True  # the second item of a sure list
    fit = calibrate_topk(scores, right)
    first = fit.places(scores, (scores / fit.temperature).logsumexp(1))[1][:, 0]
    assert first.max() - first.min() < 1e-9
    assert abs(first[0] - (~sure).double().mean()) < 0.01


def test_judged_lists_with_several_right_places_or_none():
    random = np.random.default_rng(1)
    scores = torch.tensor(random.normal(size=(4000, 30)))
    right = torch.tensor(random.random((4000, 30))) < (scores * 2 - 4).sigmoid()
    scores, order = scores.sort(1, descending=True)
    right = right.gather(1, order)
    scores[::2, 24:] = -torch.inf  # shorter lists
    right[::2, 24:] = False
    fit = calibrate_topk(scores[:2000], right[:2000])
    sums = (scores[2000:] / fit.temperature).logsumexp(1)
    each, both = fit.places(scores[2000:], sums)
    for k in (1, 3, 10):
        true = right[2000:, :k].any(1).double().mean()
        assert abs(both[:, k - 1].mean() - true) < 0.045
    assert abs(each[:, 0].mean() - right[2000:, 0].double().mean()) < 0.045
    with pytest.raises(ValueError, match='49 lists are too few'):
        calibrate_topk(scores[:49], right[:49])
    with pytest.raises(ValueError, match='no place is right'):
        calibrate_topk(scores, torch.zeros_like(right))
    with pytest.raises(ValueError, match=r'must be \[Q, K\]'):
        calibrate_topk(scores, right[:, 1:])


def test_the_temperature_is_that_of_fifty_lists_at_least(monkeypatch):
    random = torch.Generator().manual_seed(0)
    every = torch.randn(500, 40, generator=random)
    right = torch.zeros(500, 40, dtype=torch.bool)
    right[torch.arange(500), (every / 0.5).softmax(1).multinomial(1, generator=random)[:, 0]] = True
    lists = [JudgedLists(every, right)]
    whole = topk_fitting._temperature(lists)
    counts = []
    losses = JudgedLists.losses
    monkeypatch.setattr(
        JudgedLists,
        'losses',
        lambda self, temperature: counts.append(len(self.every)) or losses(self, temperature),
    )
    monkeypatch.setattr(topk_fitting, 'SCORES', 100)
    assert topk_fitting._temperature(lists) == pytest.approx(whole, rel=0.3)
    assert {*counts} == {50}
