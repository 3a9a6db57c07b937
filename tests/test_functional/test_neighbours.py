"""NeighborRetr's parts against its official code's numbers, and against loops."""

import math
import re

import numpy as np
import pytest
import torch

from mmvtr.functional.losses.neighbours import (
    centrality_weights,
    neighbour_degrees,
    neighbour_loss,
    score_divergence,
    transport_targets,
    uniform_loss,
)


@pytest.fixture(params=['tiny', 'mid'])
def golden(shared, request):
    """Name without the size -> float64 tensor."""
    stored = np.load(shared / 'golden/neighborretr.npz')
    size = f'{request.param}.'
    return {
        name.removeprefix(size): torch.from_numpy(np.asarray(stored[name]))
        for name in stored.files
        if name.startswith(size)
    }


def same(golden, case, loss, **gradients):
    """A loss and its gradients, as stored."""
    np.testing.assert_allclose(loss.item(), golden[f'{case}.loss'], rtol=1e-5)
    found = torch.autograd.grad(loss, list(gradients.values()), retain_graph=True)
    for name, gradient in zip(gradients, found):
        np.testing.assert_allclose(gradient, golden[f'{case}.{name}'], rtol=1e-5, atol=1e-5)


def cases(golden, pattern, least=2):
    found = [m for m in (re.fullmatch(pattern, name) for name in golden) if m]
    assert len(found) >= least
    return [(m[0].rpartition('.')[0], *map(float, m.groups())) for m in found]


def test_official_centrality(golden):
    for side in ('text', 'video'):
        vectors, tokens = golden[f'{side}_global'][:, 0], golden[f'{side}_tokens'].flatten(0, 1)
        for case, scale in cases(golden, rf'centrality_s([\d.]+)\.{side}'):
            found = centrality_weights(vectors, tokens, scale=scale)
            torch.testing.assert_close(found, golden[f'{case}.{side}'], rtol=1e-12, atol=0)


def test_official_neighbours(golden):
    local, bank = (golden[n].requires_grad_() for n in ('local', 'bank_texts_by_video'))
    eye = torch.eye(len(local)).bool()
    for case, k, sharpness in cases(golden, r'nbi_k(\d+)_t([\d.]+)\.loss', 4):
        loss = neighbour_loss(local, eye, bank.mean(1), neighbours=int(k), sharpness=sharpness)
        same(golden, case, loss, grad=local, grad_bank=bank)


def test_official_uniform_part(golden):
    """After 3 rounds the official plan is short of rows that sum to 1, by less than 1e-6."""
    whole = golden['global'].requires_grad_()
    eye = torch.eye(len(whole)).bool()
    for case, share, scale, rounds in cases(golden, r'opt_b([\d.]+)_s(\d+)_it(\d+)\.loss', 8):
        how = dict(share=share, iterations=int(rounds))
        loss = uniform_loss(whole, eye, temperature=1 / scale, **how)
        same(golden, case, loss, grad=whole)
        targets = transport_targets(whole, eye, temperature=1.0, **how)
        torch.testing.assert_close(targets, golden[f'{case}.targets'], rtol=0, atol=1e-6)


def test_official_divergence(golden):
    local, whole = (golden[n].requires_grad_() for n in ('local', 'global'))
    same(golden, 'kl', score_divergence(whole, local), grad_local=local, grad_global=whole)


@pytest.fixture
def case():
    """Text 0 has two videos, text 3 none; V = 6; float64."""
    generator = torch.Generator().manual_seed(7)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    positives = torch.zeros(4, 6, dtype=torch.bool)
    positives[[0, 0, 1, 2], [0, 1, 2, 3]] = True
    return scores, positives, torch.randn(6, generator=generator, dtype=torch.float64)


def degrees_by_loops(scores, positives, hubness, k, sharpness):
    rows = []
    for s, p in zip(scores.tolist(), positives.tolist()):
        others = sorted((v for v in range(len(s)) if not p[v]), key=lambda v: -s[v])
        near, rest = others[:k], others[k:]
        leads = []
        for v in near:
            lead = 0.0
            for values, sign in ((s, 1), (hubness.tolist(), -1)):
                span = [values[i] for i in rest]
                if len(span) > 1:
                    lead += sign * (values[v] - min(span)) / (max(span) - min(span))
            leads.append(math.exp(sharpness * lead))
        row = [float(x) for x in p]
        for v, lead in zip(near, leads):
            row[v] = lead / sum(leads)
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize('k', [1, 3, 4, 9])
def test_degrees_of_several_own_videos_and_few_others(case, k):
    """At 4 there is one video left, or none: nothing to scale by."""
    scores, positives, hubness = case
    found = neighbour_degrees(scores, positives, hubness, neighbours=k, sharpness=2.0)
    expected = degrees_by_loops(scores, positives, hubness, k, 2.0)
    torch.testing.assert_close(found.degrees, expected, rtol=1e-10, atol=1e-12)
    assert torch.equal(found.among, expected > 0)
    targets, loss = expected[:3] / expected[:3].sum(1, keepdim=True), 0.0
    logs = scores.masked_fill(~found.among, -torch.inf)[:3].log_softmax(1)
    loss = -(targets * logs.masked_fill(targets == 0, 0.0)).sum(1).mean()
    value = neighbour_loss(scores, positives, hubness, neighbours=k, sharpness=2.0)
    torch.testing.assert_close(value, loss, rtol=1e-10, atol=1e-12)


def test_gradients(case):
    scores, positives, hubness = case
    inputs = [x.requires_grad_() for x in (scores, hubness)]
    for k in (2, 9):
        assert torch.autograd.gradcheck(
            lambda s, h, k=k: neighbour_loss(s, positives, h, neighbours=k, sharpness=2.0), inputs
        )
    other = scores.detach().flip(0).requires_grad_()
    assert torch.autograd.gradcheck(score_divergence, (scores, other))


def test_a_hub_that_is_as_near_gets_less():
    scores = torch.tensor([[0.9, 0.5, 0.5, 0.1, 0.0]])
    hubs = torch.tensor([0.1, 0.5, 0.1, 0.1, 0.0])
    found = neighbour_degrees(scores, scores > 0.8, hubs, neighbours=2, sharpness=3.0)
    assert found.degrees[0, 1] < 0.01 and found.degrees[0, 1:3].sum().item() == pytest.approx(1)


def test_targets_of_batches_that_are_not_square(case):
    scores, positives, _ = case
    targets = transport_targets(scores, positives, share=0.4, temperature=0.5, iterations=300)
    torch.testing.assert_close(targets.sum(1)[:3], torch.ones(3, dtype=torch.float64))
    assert targets[3].abs().max() == 0
    own = positives[:3].double()
    plan = (targets[:3] - 0.6 * own / own.sum(1, keepdim=True)) / 0.4
    # The biases are those of all texts; a text's row is theirs, with sums of columns alike.
    whole = transport_targets(scores, ~(positives & False), share=1.0, temperature=0.5)
    torch.testing.assert_close(plan, whole[:3], rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(whole.sum(0), torch.full((6,), 4 / 6, dtype=torch.float64))
    value = uniform_loss(scores, positives, temperature=0.3, share=0.4, plan_temperature=0.5)
    expected = -(targets[:3] * (scores[:3] / 0.3).log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=0)


def test_nothing_to_do_and_bad_arguments(case):
    scores, positives, hubness = case
    for t, v in ((0, 6), (4, 0), (0, 0)):
        some = scores[:t, :v], positives[:t, :v]
        assert neighbour_loss(*some, hubness[:v]) == 0
        assert uniform_loss(*some, temperature=1.0) == 0
        assert score_divergence(some[0], some[0]) == 0
    with pytest.raises(ValueError, match='neighbours must be at least 1'):
        neighbour_loss(scores, positives, hubness, neighbours=0)
    with pytest.raises(ValueError, match=r'share must lie in \[0, 1\]'):
        uniform_loss(scores, positives, temperature=1.0, share=1.2)
