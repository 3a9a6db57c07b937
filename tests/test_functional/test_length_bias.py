"""The numbers of length bias against scipy, loops and simulation."""

import itertools

import pytest
import torch
from scipy.stats import spearmanr

from mmvtr.functional.metrics.length_bias import (
    chance_of_top,
    length_correlation,
    mean_of_top,
    nearer_to_train,
)

QUERIES, VIDEOS = 7, 30


@pytest.fixture
def scores():
    return torch.randn(QUERIES, VIDEOS, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def lengths():
    """Some are equally long."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(1, 20, (VIDEOS,), generator=generator).double() * 10


@pytest.fixture
def means():
    """Of each query, in train and in test."""
    return torch.tensor([[30, 120], [150, 60], [10, 11], [90, 190], [5, 200], [70, 60], [1, 2]]).T


def test_nearer_is_a_comparison_of_distances(lengths, means):
    train, test = means.double()
    found = nearer_to_train(lengths, train[:, None], test[:, None])
    for q, v in itertools.product(range(QUERIES), range(VIDEOS)):
        to_train, to_test = abs(lengths[v] - train[q]), abs(lengths[v] - test[q])
        assert found[q, v] == (0.5 if to_train == to_test else float(to_train < to_test))
    assert {0, 0.5, 1} == set(found.unique().tolist())


@pytest.mark.parametrize('k', [1, 5, 29, 30, 100])
def test_the_mean_of_the_top(scores, lengths, k):
    order = scores.argsort(dim=1, descending=True)[:, :k]
    assert torch.allclose(mean_of_top(scores, lengths, k=k), lengths[order].mean(1))
    values = torch.rand(QUERIES, VIDEOS, dtype=torch.float64)
    expected = values.gather(1, order).mean(1)
    assert torch.allclose(mean_of_top(scores, values, k=k), expected)


@pytest.mark.parametrize('levels', [1, 2, 3])
@pytest.mark.parametrize('k', [1, 3, 6])
def test_ties_at_the_top_get_the_mean_over_all_orders(levels, k):
    scores = torch.randint(levels, (6,), generator=torch.Generator().manual_seed(levels)).double()
    values = torch.tensor([30.0, 10, 20, 70, 5, 1]).double()
    orders = torch.tensor(list(itertools.permutations(range(6)))).double()
    expected = mean_of_top(100 * scores + orders, values, k=k).mean()
    assert float(mean_of_top(scores[None], values, k=k)) == pytest.approx(float(expected))


def test_videos_that_were_not_ranked(lengths):
    """A similarity that ranks a shortlist gives the others -inf."""
    scores = torch.full((1, VIDEOS), -torch.inf)
    scores[0, 3] = 1
    rest = (lengths.sum() - lengths[3]) / (VIDEOS - 1)
    expected = (lengths[3] + rest) / 2
    assert float(mean_of_top(scores, lengths, k=2)) == pytest.approx(float(expected))
    among = torch.ones(1, VIDEOS).bool()
    among[0, :2] = False
    found = length_correlation(scores, lengths, lengths[3:4], among)
    rank = spearmanr(-scores[0, 2:], (lengths[2:] - lengths[3]).abs()).statistic
    assert float(found) == pytest.approx(rank) and rank > 0


@pytest.mark.parametrize('ties', [False, True])
def test_the_correlation_is_scipys(scores, lengths, means, ties):
    scores = (2 * scores).round() if ties else scores
    centre = means[0].double()
    among = torch.rand(QUERIES, VIDEOS, generator=torch.Generator().manual_seed(2)) < 0.6
    found = length_correlation(scores, lengths, centre, among)
    for q in range(QUERIES):
        distance = (lengths - centre[q]).abs()[among[q]]
        expected = spearmanr(-scores[q, among[q]].double(), distance).statistic
        assert float(found[q]) == pytest.approx(expected, rel=1e-9)


def test_the_correlation_has_a_sign(lengths):
    """1 where the nearest in length come first, 0 where nothing can be told."""
    centre = torch.full((4,), 77.0).double()
    distance = (lengths - 77).abs()
    scores = torch.stack([-distance, distance, 0 * distance, -distance])
    among = torch.ones(4, VIDEOS).bool()
    among[3] = False
    found = length_correlation(scores, lengths, centre, among)
    assert found.tolist() == pytest.approx([1, -1, 0, 0]) and found[2:].tolist() == [0, 0]


def test_random_rankings_have_no_correlation(lengths):
    scores = torch.rand(4000, VIDEOS, generator=torch.Generator().manual_seed(3))
    among = torch.ones_like(scores).bool()
    found = length_correlation(scores, lengths, torch.full((4000,), 80.0).double(), among)
    assert abs(float(found.mean())) < 4 * float(found.std()) / 4000**0.5


@pytest.mark.parametrize('k', [1, 4, 20, 50])
def test_chance_is_that_of_random_rankings(lengths, means, k):
    train, test = means.double()
    chance = chance_of_top(lengths, train, test, k=k)
    scores = torch.rand(20_000, VIDEOS, generator=torch.Generator().manual_seed(4))
    found = mean_of_top(scores, lengths, k=k)
    for q in range(QUERIES):
        expected = nearer_to_train(found, train[q], test[q]).mean()
        assert float(chance[q]) == pytest.approx(float(expected), abs=0.025)
    assert torch.equal(chance, chance_of_top(lengths, train, test, k=k))


def test_chance_of_one_video_is_a_share(lengths, means):
    train, test = means.double()
    share = nearer_to_train(lengths, train[:, None], test[:, None]).mean(1)
    assert torch.allclose(chance_of_top(lengths, train, test, k=1), share)


def test_chunks_do_not_change_anything(scores, lengths, means, monkeypatch):
    train = means[0].double()
    among = scores > -1
    whole = length_correlation(scores, lengths, train, among), mean_of_top(scores, lengths, k=3)
    monkeypatch.setattr('mmvtr.functional.metrics.ranks.TILE', 2 * VIDEOS)
    parts = length_correlation(scores, lengths, train, among), mean_of_top(scores, lengths, k=3)
    assert all(map(torch.equal, whole, parts))


def test_half_precision_scores(scores, lengths, means):
    scores = scores.bfloat16()
    among = torch.ones_like(scores).bool()
    for function in (
        lambda s: mean_of_top(s, lengths, k=4),
        lambda s: length_correlation(s, lengths, means[0].double(), among),
    ):
        assert torch.equal(function(scores), function(scores.float()))
