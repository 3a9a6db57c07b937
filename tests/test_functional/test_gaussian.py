import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from mmvtr.functional import gaussian


@pytest.fixture
def pairs():
    generator = torch.Generator().manual_seed(0)

    def draw(n):
        return torch.randn(n, 3, generator=generator, dtype=torch.float64)

    return draw(4), draw(4), draw(5), draw(5)


def test_wasserstein2_is_equation_9(pairs):
    mean_t, log_std_t, mean_v, log_std_v = pairs
    value = gaussian.wasserstein2(*pairs)
    for t in range(4):
        for v in range(5):
            expected = sum(
                (mean_t[t, d] - mean_v[v, d]).item() ** 2
                + (math.exp(log_std_t[t, d]) - math.exp(log_std_v[v, d])) ** 2
                for d in range(3)
            )
            assert value[t, v].item() == pytest.approx(expected, rel=1e-10)


def test_wasserstein2_of_itself_is_zero_and_differentiable(pairs):
    mean, log_std = pairs[0].clone().requires_grad_(), pairs[1].clone().requires_grad_()
    value = gaussian.wasserstein2(mean, log_std, mean.detach(), log_std.detach())
    assert value.diagonal().abs().max() < 1e-12
    assert torch.autograd.gradcheck(
        lambda m, s: gaussian.wasserstein2(m, s, pairs[2], pairs[3]), (mean, log_std)
    )


def test_kl_divergence_equals_torch_distributions(pairs):
    mean_t, log_std_t, mean_v, log_std_v = (x[:4] for x in pairs)
    expected = kl_divergence(Normal(mean_t, log_std_t.exp()), Normal(mean_v, log_std_v.exp())).sum(
        -1
    )
    torch.testing.assert_close(
        gaussian.kl_divergence(mean_t, log_std_t, mean_v, log_std_v), expected
    )


def test_samples_have_the_stated_moments(pairs):
    mean, log_std = pairs[0], pairs[1].clamp(-1, 1)
    samples = gaussian.sample(mean, log_std, 20000, torch.Generator().manual_seed(0))
    assert samples.shape == (4, 20000, 3)
    torch.testing.assert_close(samples.mean(1), mean, atol=0.08, rtol=0)
    torch.testing.assert_close(samples.std(1), log_std.exp(), rtol=0.03, atol=0)


def test_means_over_sample_pairs_equal_the_double_sum():
    """(1/K^2) sum_i sum_j of Eq. 8, by loops, for cosines and for inner products."""
    t, v = torch.randn(2, 4, 7, 3, dtype=torch.float64)
    for n in range(4):
        dots = [[sum(t[n, i] * v[n, j]).item() for j in range(7)] for i in range(7)]
        cosines = [
            dots[i][j] / (t[n, i].norm() * v[n, j].norm()).item()
            for i in range(7)
            for j in range(7)
        ]
        assert gaussian.mean_sample_dot(t, v)[n].item() == pytest.approx(
            sum(map(sum, dots)) / 49, rel=1e-10
        )
        assert gaussian.mean_sample_cosine(t, v)[n].item() == pytest.approx(
            sum(cosines) / 49, rel=1e-10
        )
