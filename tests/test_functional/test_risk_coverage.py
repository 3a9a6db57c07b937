from itertools import permutations

import pytest
import torch
from scipy.stats import spearmanr

from mmvtr.functional.uncertainty.reliability import rejection_ratio, risk_coverage, spearman


def curve(order, risk):
    return [sum(risk[i] for i in order[:k]) / k for k in range(1, len(risk) + 1)]


def test_risk_coverage_is_the_expectation_over_tie_orders():
    uncertainty, risk = [0.5, 0.1, 0.5, 0.5, 0.9], [1.0, 0.0, 0.0, 1.0, 1.0]
    tied = [(1, *p, 4) for p in permutations((0, 2, 3))]
    expected = [sum(c) / len(tied) for c in zip(*(curve(order, risk) for order in tied))]
    value = risk_coverage(torch.tensor(uncertainty), torch.tensor(risk))
    assert value.tolist() == pytest.approx(expected)


def test_rejection_ratio_is_one_at_best_and_zero_by_chance():
    risk = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0])
    assert rejection_ratio(risk, risk) == 1
    assert rejection_ratio(torch.ones(5), risk).item() == pytest.approx(0, abs=1e-12)
    assert rejection_ratio(torch.rand(5), torch.full((5,), 0.3)) == 0  # nothing to gain
    orders = [rejection_ratio(torch.tensor(p), risk) for p in permutations(range(5))]
    assert float(sum(orders)) == pytest.approx(0, abs=1e-9)
    assert min(orders).item() == pytest.approx(rejection_ratio(-risk, risk).item())
    assert min(orders) < 0


def test_spearman_is_scipys():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(6, (40,), generator=generator).float()  # with ties
    y = x + torch.randint(9, (40,), generator=generator)
    assert spearman(x, y).item() == pytest.approx(spearmanr(x, y).statistic)
    assert spearman(x, -x).item() == pytest.approx(-1)
    assert spearman(x, torch.ones(40)) == 0


@pytest.mark.parametrize('function', [risk_coverage, rejection_ratio, spearman])
def test_bad_vectors(function):
    with pytest.raises(ValueError, match=r'got \[2\] and \[3\]'):
        function(torch.ones(2), torch.ones(3))
    with pytest.raises(ValueError, match='N > 0 items'):
        function(torch.ones(0), torch.ones(0))
    with pytest.raises(ValueError, match='NaN'):
        function(torch.tensor([1.0, torch.nan]), torch.ones(2))
