"""AP, nDCG, precision@1 and AUC against scikit-learn, and against all orders of tied candidates."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from mmvtr.functional.metrics.relevance import auc, average_precision, ndcg_at_k, precision_at_1


@pytest.fixture
def truth():
    return torch.rand(20, 30, generator=torch.Generator().manual_seed(0)) < 0.2


@pytest.fixture
def scores():
    return torch.randn(20, 30, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def relevance(truth):
    return truth * torch.rand(20, 30, generator=torch.Generator().manual_seed(2)).double()


def in_all_orders(metric, target, scores):
    """Mean of ``metric`` over every way to break the ties of one query."""
    orders = torch.tensor(list(itertools.permutations(range(len(scores))))).double()
    return float(metric(1000 * scores + orders, target.expand(orders.shape)).mean())


def test_average_precision_is_sklearns(scores, truth):
    for dim, s, t in ((1, scores, truth), (0, scores.t(), truth.t())):
        expected = [average_precision_score(*pair) for pair in zip(t.numpy(), s.numpy())]
        mine = average_precision(scores, truth, dim=dim)
        np.testing.assert_allclose(mine, expected, rtol=1e-12)


@pytest.mark.parametrize('k', [1, 5, 50])
@pytest.mark.parametrize('ties', [False, True])
def test_ndcg_is_sklearns(scores, relevance, k, ties):
    scores = (2 * scores).round() if ties else scores
    for dim, s, r in ((1, scores, relevance), (0, scores.t(), relevance.t())):
        expected = [ndcg_score([r], [s], k=k) for r, s in zip(r.numpy(), s.numpy())]
        np.testing.assert_allclose(ndcg_at_k(scores, relevance, k=k, dim=dim), expected)


@pytest.mark.parametrize('levels', [1, 2, 3])
def test_ties_get_the_mean_over_all_orders(levels):
    generator = torch.Generator().manual_seed(levels)
    scores = torch.randint(levels, (6,), generator=generator).float()
    truth = torch.tensor([1, 0, 1, 0, 0, 1]).bool()
    gains = torch.tensor([0.5, 0, 1, 0, 0.2, 0])
    for metric, target in (
        (average_precision, truth),
        (precision_at_1, truth),
        (lambda s, t: ndcg_at_k(s, t, k=3), gains),
    ):
        expected = in_all_orders(metric, target, scores)
        assert float(metric(scores[None], target[None])) == pytest.approx(expected)


def test_precision_at_1_looks_at_the_first(scores, truth):
    first = truth[torch.arange(20), scores.argmax(1)].double()
    assert torch.equal(precision_at_1(scores, truth)[truth.any(1)], first[truth.any(1)])
    first = truth[scores.argmax(0), torch.arange(30)].double()
    mine = precision_at_1(scores, truth, dim=0)
    assert torch.equal(mine[truth.any(0)], first[truth.any(0)])


def test_a_constant_matrix_is_chance(truth, relevance):
    """The closed forms of a random ranking."""
    constant = torch.zeros(20, 30)
    matches = truth.sum(1).double()
    assert torch.allclose(precision_at_1(constant, truth), matches / 30)
    place = torch.arange(1, 31).double()
    chance = (1 + (place - 1) * (matches[:, None] - 1) / 29) / place / 30
    assert torch.allclose(average_precision(constant, truth), chance.sum(1))
    discount = 1 / (place + 1).log2()
    best = (relevance.sort(descending=True).values * discount)[:, :10].sum(1)
    expected = relevance.mean(1) * discount[:10].sum() / best
    assert torch.allclose(ndcg_at_k(constant, relevance, k=10), expected)


def test_perfect_scores_are_perfect(truth, relevance):
    assert torch.allclose(average_precision(truth.float(), truth), torch.ones(20).double())
    assert torch.allclose(ndcg_at_k(relevance, relevance), torch.ones(20).double())
    assert torch.equal(precision_at_1(truth.float(), truth), torch.ones(20).double())


def test_queries_without_a_match_are_nan(scores, truth, relevance):
    truth[3], relevance[3] = False, 0
    for values in (
        average_precision(scores, truth),
        precision_at_1(scores, truth),
        ndcg_at_k(scores, relevance),
    ):
        assert values.isnan().nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize('metric', [average_precision, precision_at_1, ndcg_at_k])
def test_nan_is_an_error(metric, scores, truth):
    scores[2, 7] = torch.nan
    with pytest.raises(ValueError, match=r'scores\[2, 7\] is NaN'):
        metric(scores, truth)


@pytest.mark.parametrize('ties', [False, True])
def test_auc_is_sklearns(scores, truth, ties):
    scores = (2 * scores).round() if ties else scores
    expected = roc_auc_score(truth.flatten(), scores.flatten())
    assert float(auc(scores[truth], scores[~truth])) == pytest.approx(expected, rel=1e-12)


def test_auc_needs_two_classes():
    with pytest.raises(
        ValueError, match='AUC needs at least one positive and one negative, got 0 and 3'
    ):
        auc(torch.empty(0), torch.zeros(3))
