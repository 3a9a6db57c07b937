"""ProbVLM: by scipy's density, and by numbers of its official code."""

import numpy as np
import pytest
import torch
from scipy.stats import gennorm

from mmvtr.functional import generalised_gaussian_nll, generalised_gaussian_std


@pytest.fixture
def entries():
    generator = torch.Generator().manual_seed(0)
    residual = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    log_alpha = torch.randn(4, 5, generator=generator, dtype=torch.float64) / 2
    beta = 0.5 + 3 * torch.rand(4, 5, generator=generator, dtype=torch.float64)
    return residual, log_alpha, beta


def test_the_density_is_scipys(entries):
    residual, log_alpha, beta = entries
    alpha = log_alpha.exp().numpy()
    expected = -gennorm.logpdf(residual.numpy(), beta.numpy(), scale=alpha)
    np.testing.assert_allclose(generalised_gaussian_nll(*entries).numpy(), expected, rtol=1e-10)
    expected = gennorm.std(beta.numpy(), scale=alpha)
    found = generalised_gaussian_std(log_alpha, beta).exp().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_gradients_also_at_a_residual_of_zero(entries):
    leaves = [x.requires_grad_() for x in entries]
    for form in ('density', 'official'):
        assert torch.autograd.gradcheck(
            lambda r, a, b, form=form: generalised_gaussian_nll(r, a, b, form=form), leaves
        )
    zeros = torch.zeros(3, requires_grad=True)
    betas = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    generalised_gaussian_nll(zeros, zeros, betas).sum().backward()
    assert zeros.grad.isfinite().all() and betas.grad.isfinite().all()
    with pytest.raises(ValueError, match='form must be'):
        generalised_gaussian_nll(zeros, zeros, betas, form='code')


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_numbers(shared, size):
    golden = np.load(shared / 'golden/probvlm.npz')

    def read(name):
        return torch.from_numpy(golden[f'{size}.{name}'])

    names = ('mean', 'one_over_alpha', 'beta')
    for reduce in ('mean', 'sum'):
        for case, first, second in (
            ('gengauss', 0, 1),
            (f'comb_{reduce}_T1_0.05', 1, 0.05),
            (f'comb_{reduce}_T0.3_1', 0.3, 1),
        ):
            case = f'gengauss_{reduce}' if case == 'gengauss' else case
            mean, inverse, beta = (read(name).clone().requires_grad_() for name in names)
            residual = mean - read('target')
            loss = (
                second * generalised_gaussian_nll(residual, -inverse.log(), beta, form='official')
                + first * residual.abs()
            )
            loss = getattr(loss, reduce)()
            torch.testing.assert_close(loss, read(f'{case}.official'))
            for name, found in zip(names, torch.autograd.grad(loss, (mean, inverse, beta))):
                torch.testing.assert_close(found, read(f'{case}.grad.{name}'))
    residual = read('mean') - read('target')
    found = generalised_gaussian_nll(residual, -read('one_over_alpha').log(), read('beta'))
    found = (found - np.log(2)).flatten()[2:]
    torch.testing.assert_close(found, read('paper_nll_elements').flatten()[2:])
    torch.testing.assert_close(found.mean(), read('paper_nll_mean_without_first_two'))
