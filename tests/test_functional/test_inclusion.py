"""ProLIP: by quadrature, and by numbers of its official code."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from mmvtr.functional import (
    binary_cross_entropy,
    closed_form_distance,
    inclusion,
    inclusion_loss,
    inclusion_matrix,
    kl_to_unit,
)


@pytest.mark.parametrize('a, b', [((0.3, 0.7), (-0.2, 1.4)), ((1.0, 2.0), (0.0, 0.5))])
def test_the_exact_form_is_the_integral(a, b):
    x = torch.linspace(-30, 30, 400_001, dtype=torch.float64)
    p, q = (Normal(*map(torch.tensor, side)).log_prob(x).double().exp() for side in (a, b))
    expected = torch.trapezoid(p.square() * q, x).log().item()
    (mean_a, std_a), (mean_b, std_b) = (torch.tensor(side).double() for side in (a, b))
    found = inclusion(mean_a, std_a.log(), mean_b, std_b.log())
    assert found.item() == pytest.approx(expected, abs=1e-6)
    eps = 0.8  # of all variances
    narrow = [std.log() - eps / 2 for std in (std_a, std_b)]
    moved = inclusion(mean_a, std_a.log(), mean_b, std_b.log(), eps=eps)
    torch.testing.assert_close(moved, inclusion(mean_a, narrow[0], mean_b, narrow[1]))


def test_forms_differ_by_their_volume_alone():
    means, log_stds = torch.randn(2, 2, 5, dtype=torch.float64)
    both = means[0], log_stds[0], means[1], log_stds[1]
    exact, official = (inclusion(*both, form=form) for form in ('exact', 'official'))
    volume = 2 * log_stds[0] + log_stds[1]  # counted once more
    shift = official + volume - exact
    torch.testing.assert_close(shift, shift[:1].expand_as(shift))


def test_the_matrix_is_made_in_parts(monkeypatch):
    means, log_stds = torch.randn(2, 7, 3, dtype=torch.float64)
    whole = inclusion_matrix(means, log_stds, means[:4], log_stds[:4])
    monkeypatch.setattr('mmvtr.functional.uncertainty.inclusion.ENTRIES', 25)
    parts = inclusion_matrix(means, log_stds, means[:4], log_stds[:4])
    torch.testing.assert_close(parts, whole)
    for i, j in ((0, 1), (6, 3)):
        one = inclusion(means[i], log_stds[i], means[j], log_stds[j]).sum()
        torch.testing.assert_close(whole[i, j], one)


def test_the_loss_by_loops():
    means, log_stds = torch.randn(2, 2, 4, 3, dtype=torch.float64)
    total = 0.0
    for i in range(4):
        a, b = ((means[k, i], log_stds[k, i]) for k in (0, 1))
        difference = (inclusion(*a, *b).sum() - inclusion(*b, *a).sum()).item()
        total += math.log1p(math.exp(-0.3 * difference))
    loss = inclusion_loss(means[0], log_stds[0], means[1], log_stds[1], scale=0.3)
    assert loss.item() == pytest.approx(total / 4)
    none = torch.zeros(0, 3)
    assert inclusion_loss(none, none, none, none).item() == 0
    with pytest.raises(ValueError, match='form must be'):
        inclusion_loss(none, none, none, none, form='paper')


def read(golden, size, name):
    return torch.from_numpy(golden[f'{size}.{name}'])


def gaussian(golden, size, side):
    """Mean and log_std, leaves."""
    mean, logvar = (read(golden, size, f'{side}.{x}').clone() for x in ('mean', 'logvar'))
    return mean.requires_grad_(), logvar.requires_grad_()


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_inclusion(shared, size):
    golden = np.load(shared / 'golden/prolip.npz')
    (mean_v, var_v), (mean_t, var_t) = (gaussian(golden, size, s) for s in ('video', 'text'))
    v, t = (mean_v, var_v / 2), (mean_t, var_t / 2)
    exact = {'video_in_text': (*v, *t), 'text_in_video': (*t, *v)}
    for name, pair in exact.items():
        torch.testing.assert_close(
            inclusion(*pair), read(golden, size, f'exact_log_integral.{name}')
        )
    for eps in (0, -10, -20):
        how = dict(eps=float(eps), form='official')
        name = f'inclusion_test_eps{eps}'
        torch.testing.assert_close(
            inclusion(*v, *t, **how), read(golden, size, f'{name}.pairs_per_dim')
        )
        for kind, pair in exact.items():
            stored = read(golden, size, f'{name}.{kind}_matrix')
            torch.testing.assert_close(inclusion_matrix(*pair, **how), stored)


#: Scale and bias of the scores; weights of VIB and inclusion, of masked items, eps and its scale.
CASES = dict(
    ppcl=(10, -10, 0, 0, 0, 0, 1),
    ppcl_vib=(14, -8, 1e-4, 0, 0, 0, 1),
    ppcl_vib_inc=(10, -10, 0.01, 0.01, 0, 0, 1),
    default_scale_inc=(10, -10, 1e-5, 1e-7, 0, -10, 1000),
    masked=(10, -10, 1e-4, 0.1, 0.2, -1, 0.5),
)


@pytest.mark.parametrize('case', CASES)
@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_losses(shared, size, case):
    golden = np.load(shared / 'golden/prolip.npz')
    scale, bias, vib, inc, masked, eps, steep = CASES[case]
    how = dict(scale=steep, eps=float(eps), form='official')
    leaves = [gaussian(golden, size, side) for side in ('video', 'text')]
    v, t = ((mean, logvar / 2) for mean, logvar in leaves)
    factors = [torch.tensor(float(x)).double().requires_grad_() for x in (scale, bias)]
    scores = 1 - closed_form_distance(*t, *v) / 2  # of unit means
    product = t[0] @ v[0].T - (t[1] * 2).exp().sum(1)[:, None] / 2 - (v[1] * 2).exp().sum(1) / 2
    torch.testing.assert_close(scores, product)
    eye = torch.eye(len(scores)).bool()
    parts = dict(
        ppcl=binary_cross_entropy(
            product, eye, scale=factors[0], bias=factors[1], reduction='items'
        ),
        vib=vib * sum(kl_to_unit(m, s / 2).mean() / m.shape[1] for m, s in (v, t)),
        inclusion=inc * inclusion_loss(*v, *t, **how),
    )
    if masked:
        for side, own, name in (('video', v, 'img'), ('text', t, 'txt')):
            mean, logvar = (read(golden, size, f'masked_{side}.{x}') for x in ('mean', 'logvar'))
            some = [x[: len(mean)] for x in own]
            parts[f'{name}_inclusion'] = masked * inclusion_loss(*some, mean, logvar / 2, **how)
    for name, value in parts.items():
        if f'{size}.{case}.part.{name}' in golden:
            torch.testing.assert_close(value, read(golden, size, f'{case}.part.{name}'))
    loss = sum(parts.values())
    torch.testing.assert_close(loss, read(golden, size, f'{case}.loss'))
    names = [f'{s}.{x}' for s in ('video', 'text') for x in ('mean', 'logvar')]
    gradients = torch.autograd.grad(loss, [*leaves[0], *leaves[1], *factors])
    for name, gradient in zip([*names, 'logit_scale', 'logit_bias'], gradients):
        stored = read(golden, size, f'{case}.grad.{name}')
        torch.testing.assert_close(gradient, stored)


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_siglip(shared, size):
    golden = np.load(shared / 'golden/prolip.npz')
    text, video = (read(golden, size, f'{side}.mean') for side in ('text', 'video'))
    eye = torch.eye(len(text)).bool()
    found = binary_cross_entropy(text @ video.T, eye, scale=9.0, bias=-7.0, reduction='items')
    torch.testing.assert_close(found, read(golden, size, 'siglip.part.siglip'))
