import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from mmvtr.functional.uncertainty import gaussian


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


def test_squared_distances_are_those_of_each_pair():
    t, v = torch.randn(4, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    value = gaussian.squared_distances(t, v)
    for i in range(4):
        for j in range(5):
            expected = sum((t[i, d] - v[j, d]).item() ** 2 for d in range(3))
            assert value[i, j].item() == pytest.approx(expected, rel=1e-10)
    assert gaussian.squared_distances(t, t).min() >= 0


def test_kl_to_unit_is_equation_12(pairs):
    mean, log_std = pairs[:2]
    unit = Normal(torch.zeros_like(mean), torch.ones_like(mean))
    expected = kl_divergence(Normal(mean, log_std.exp()), unit).sum(-1)
    torch.testing.assert_close(gaussian.kl_to_unit(mean, log_std), expected)
    assert torch.equal(gaussian.kl_to_unit(0 * mean, 0 * mean), torch.zeros(4).double())
    mean, log_std = mean.clone().requires_grad_(), log_std.clone().requires_grad_()
    assert torch.autograd.gradcheck(gaussian.kl_to_unit, (mean, log_std))


def test_kl_to_unit_stays_finite():
    for log_std in (-7.0, 7.0):
        assert gaussian.kl_to_unit(torch.ones(1, 512), torch.full((1, 512), log_std)).isfinite()


def test_official_kl_is_that_of_half_the_log_std(pairs):
    """-0.5 sum(1 + l - m^2 - exp(l)), by loops."""
    mean, log_sigma = pairs[:2]
    value = gaussian.kl_to_unit(mean, log_sigma / 2)
    for n in range(4):
        terms = [
            1 + x - m**2 - math.exp(x) for m, x in zip(mean[n].tolist(), log_sigma[n].tolist())
        ]
        assert value[n].item() == pytest.approx(-0.5 * sum(terms), rel=1e-10)


def test_official_kl_golden(shared):
    golden = np.load(shared / 'golden/uatvr_kl.npz')
    total = 0.0
    for side in ('video', 'text'):
        samples, log_sigma = (
            torch.as_tensor(golden[f'{side}_{name}']) for name in ('samples', 'logsigma')
        )
        kl = gaussian.kl_to_unit(samples.mean(1), log_sigma / 2).sum().item()
        assert kl == pytest.approx(float(golden[f'kl_{side}']), rel=1e-5)
        total += kl
    assert total == pytest.approx(float(golden['vib_loss']), rel=1e-5)


def test_geometric_sigma():
    log_std = torch.tensor([[0.1, 0.4], [1.0, 1.0]]).log()
    torch.testing.assert_close(gaussian.geometric_sigma(log_std), torch.tensor([0.2, 1.0]))


def test_bounded_clamps_and_lets_only_the_way_back_pass():
    x = torch.tensor([-9.0, -9.0, 0.5, 9.0, 9.0], requires_grad=True)
    y = gaussian.bounded(x, -7.0, 7.0)
    assert y.tolist() == [-7.0, -7.0, 0.5, 7.0, 7.0]
    # Descent moves against the gradient: up for a negative one.
    y.backward(torch.tensor([-1.0, 1.0, 2.0, 1.0, -1.0]))
    assert x.grad.tolist() == [-1.0, 0.0, 2.0, 1.0, 0.0]
    inside = torch.linspace(-6, 6, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: gaussian.bounded(z, -7.0, 7.0).exp(), inside)


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_samples_in_parts_are_those_of_all_at_once(dtype):
    generator = torch.Generator().manual_seed(0)
    mean, log_std = torch.randn(2, 50, 6, generator=generator, dtype=dtype)
    found = []
    for entries in (20 * 3 * 6, 10**9):  # parts of 20 items would be 360 numbers, no multiple of 16
        inputs = [x.clone().requires_grad_() for x in (mean, log_std)]
        units = gaussian.mean_unit_sample(*inputs, 3, generator.manual_seed(1), entries=entries)
        next_number = torch.randn(16, generator=generator)
        units.square().sum().backward()
        found.append([units.detach(), next_number, *(x.grad for x in inputs)])
    for some, whole in zip(*found):
        assert torch.equal(some, whole)


def test_no_samples_are_refused(pairs):
    with pytest.raises(ValueError, match='num_samples must be at least 1, not 0'):
        gaussian.sample(pairs[0], pairs[1], 0)


@pytest.mark.parametrize('dtype', [torch.float64, torch.float32, torch.bfloat16])
def test_a_value_stored_at_its_limit_is_at_it_in_any_type(dtype):
    """-log(0.01) is larger in float32 than in float64: the temperature of CLIP at its end."""
    limit = -math.log(0.01)
    x = torch.tensor([limit, -limit]).to(dtype).requires_grad_()
    gaussian.bounded(x, -limit, limit).backward(torch.tensor([-1.0, 1.0], dtype=dtype))
    assert x.grad.tolist() == [-1.0, 1.0]
    beyond = torch.tensor([limit + 0.1, -limit - 0.1], dtype=dtype, requires_grad=True)
    gaussian.bounded(beyond, -limit, limit).backward(torch.tensor([-1.0, 1.0], dtype=dtype))
    assert beyond.grad.tolist() == [0.0, 0.0]
