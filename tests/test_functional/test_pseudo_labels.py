"""PCME++: by loops, and by numbers of its official code."""

import re

import numpy as np
import pytest
import torch

from mmvtr.functional import (
    binary_cross_entropy,
    closed_form_distance,
    kl_to_unit,
    mixed_labels,
    pseudo_positives,
    wasserstein2,
)


def test_pseudo_positives_by_loops():
    generator = torch.Generator().manual_seed(1)
    scores = torch.rand(6, 5, generator=generator)
    labels = torch.zeros(6, 5)
    labels[[0, 1, 2, 2, 3, 3], [0, 1, 2, 4, 3, 0]] = torch.tensor([1, 1, 0.4, 0.6, 1, 1])
    found = pseudo_positives(scores, labels)
    raised = 0
    for i in range(6):
        top = max(labels[i].tolist())
        match = labels[i].tolist().index(top)
        for j in range(5):
            above = top > 0 and scores[i, j] >= scores[i, match]
            expected = top if above else labels[i, j].item()
            assert found[i, j].item() == pytest.approx(expected)
            raised += expected != labels[i, j].item()
    assert raised > 2 and not found[4:].any()  # rows 4 and 5 have no match
    bools = pseudo_positives(scores, labels == 1)
    assert bools.dtype == torch.bool and bools.sum() > (labels == 1).sum()
    assert pseudo_positives(scores[:, :0], labels[:, :0]).shape == (6, 0)


def test_mixed_labels_by_loops():
    labels = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 0]]).bool()
    share, partner = torch.tensor([0.7, 1.0, 0.2]).double(), torch.tensor([2, 1, 0])
    found = mixed_labels(labels, share, partner, smoothing=0.01)
    for t in range(3):
        for v in range(3):
            own, other = (0.99 if labels[t, c] else 0.01 for c in (v, int(partner[v])))
            expected = share[v].item() * own + (1 - share[v].item()) * other
            assert found[t, v].item() == pytest.approx(expected)


def sampled_distance(mean_a, std_a, mean_b, std_b, size=200_000):
    generator = torch.Generator().manual_seed(0)
    a, b = (
        mean + std * torch.randn(size, len(mean), generator=generator, dtype=mean.dtype)
        for mean, std in ((mean_a, std_a), (mean_b, std_b))
    )
    return (a - b).square().sum(1).mean()


def test_the_closed_form_is_the_mean_of_samples():
    generator = torch.Generator().manual_seed(2)
    means = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    stds = torch.rand(3, 4, generator=generator, dtype=torch.float64)
    found = closed_form_distance(means[:1], stds[:1].log(), means[1:], stds[1:].log())
    for j in range(2):
        expected = sampled_distance(means[0], stds[0], means[1 + j], stds[1 + j])
        assert found[0, j].item() == pytest.approx(expected.item(), rel=0.01)


def read(golden, name):
    return torch.from_numpy(golden[name])


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_distances(shared, size):
    golden = np.load(shared / 'golden/pcmepp.npz')
    gaussians = [read(golden, f'{size}.{side}.{x}') for side in ('text', 'video') for x in PARTS]
    gaussians[1], gaussians[3] = gaussians[1] / 2, gaussians[3] / 2
    for function, name in ((closed_form_distance, 'csd'), (wasserstein2, 'wdist')):
        torch.testing.assert_close(function(*gaussians).T, read(golden, f'{size}.{name}'))


PARTS = ('mean', 'logvar')


@pytest.mark.parametrize('labels', ['multi', 'mix_elem', 'mix_batch0.3', 'smooth0.01'])
@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_losses(shared, size, labels):
    """Rows of the official code are videos; scale and bias are parameters as they are."""
    golden = np.load(shared / 'golden/pcmepp.npz')
    cases = [key[: -len('.loss')] for key in golden.files if key.endswith('.loss')]
    cases = [case for case in cases if case.startswith(f'{size}.{labels}.')]
    assert len(cases) == 4
    matched = read(golden, f'{size}.matched.{labels}').T.double()
    for case in cases:
        scale, bias = (float(re.search(rf'_{x}([\d.]+)_', case)[1]) for x in 'ns')
        vib, alpha = map(float, re.search(r'_v([\d.]+)_a([\d.]+)$', case).groups())
        leaves = {}
        for side, count in (('text', matched.shape[0]), ('video', matched.shape[1])):
            for part in PARTS:
                leaf = read(golden, f'{size}.{side}.{part}')[:count].clone()
                leaves[f'{side}.{part}'] = leaf.requires_grad_()
        leaves['shift'] = torch.tensor([bias]).double().requires_grad_()
        leaves['negative_scale'] = torch.tensor([scale]).double().requires_grad_()
        sides = [
            (leaves[f'{side}.mean'], leaves[f'{side}.logvar'] / 2) for side in ('text', 'video')
        ]
        distance = closed_form_distance if '.csd_' in case else wasserstein2
        how = dict(scale=leaves['negative_scale'], bias=leaves['shift'])
        scores = -distance(*sides[0], *sides[1])
        loss = 2 * binary_cross_entropy(scores, matched, **how)
        loss = loss + vib * sum(kl_to_unit(*side).mean() / side[0].shape[1] for side in sides)
        if alpha:
            logits = (scale * scores + bias).detach()
            by_text = pseudo_positives(logits, matched)
            by_video = pseudo_positives(logits.T, matched.T)
            for pseudo, name in ((by_text, 'pseudo_text'), (by_video, 'pseudo_video')):
                if f'{case}.{name}' in golden:
                    torch.testing.assert_close(pseudo, read(golden, f'{case}.{name}').to(pseudo))
            for pseudo in (by_text, by_video.T):
                loss = loss + alpha * binary_cross_entropy(scores, pseudo, **how)
        assert loss.item() == pytest.approx(golden[f'{case}.loss'].item(), rel=1e-7)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        for name, gradient in zip(leaves, gradients):
            stored = read(golden, f'{case}.grad.{name}')
            torch.testing.assert_close(gradient, stored)


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_mixed_labels(shared, size):
    golden = np.load(shared / 'golden/pcmepp.npz')
    share = read(golden, f'{size}.mix.lam')
    eye, partner = torch.eye(len(share)).bool(), torch.arange(len(share)).flip(0)
    found = mixed_labels(eye, share, partner, smoothing=1e-4)
    torch.testing.assert_close(found.T, read(golden, f'{size}.mix.soft'))
    found = mixed_labels(eye, torch.full_like(share, 0.3), partner)
    torch.testing.assert_close(found.T, read(golden, f'{size}.mix_batch0.3.soft'))
