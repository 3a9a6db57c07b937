"""RINCE against its equation, and against what it becomes at either end of q."""

import math

import pytest
import torch

from mmvtr.functional.losses.contrastive import Columns, contrastive
from mmvtr.functional.losses.robust import rince
from mmvtr.models.losses.matrix import RINCELoss
from mmvtr.models.target import Target


@pytest.fixture
def case():
    """Text 4 has no video, text 0 has two; float64."""
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    positives = torch.zeros(5, 4, dtype=torch.bool)
    positives[[0, 0, 1, 2, 3], [0, 1, 1, 2, 3]] = True
    return scores, positives, torch.rand(5, 4, generator=generator, dtype=torch.float64)


def by_loops(scores, positives, weights, q, density):
    terms = []
    for s, p, w in zip(scores.tolist(), positives.tolist(), weights.tolist()):
        pull = sum(y * math.exp(x) for x, y in zip(s, p))
        push = sum((1 - y) * wx * math.exp(x) for x, y, wx in zip(s, p, w))
        if any(p):
            terms.append(-(pull**q) / q + (density * (pull + push)) ** q / q)
    return sum(terms) / len(terms)


@pytest.mark.parametrize('q', [0.01, 0.5, 1.0])
@pytest.mark.parametrize('soft', [False, True])
def test_the_equation(case, q, soft):
    scores, positives, weights = case
    if soft:
        positives = torch.where(positives, 1.0, 0.3 * weights.flip(0)).double()
    how = dict(q=q, density=0.2)
    t2v = by_loops(scores / 0.5, positives, weights, **how)
    v2t = by_loops(scores.t() / 0.5, positives.t(), weights.t(), **how)
    for direction, expected in (('t2v', t2v), ('v2t', v2t), ('both', (t2v + v2t) / 2)):
        value = rince(
            scores, positives, **how, temperature=0.5, weights=weights, direction=direction
        )
        assert value.item() == pytest.approx(expected, rel=1e-11)
        loss = RINCELoss(**how, direction=direction)
        found = loss(dict(scores=scores), Target(positives, weights=weights), 0.5)
        torch.testing.assert_close(found, value, rtol=1e-12, atol=0)


def test_counts_and_columns(case):
    scores, positives, weights = case
    counts, more = weights[:, 0], weights.flip(1)
    value = rince(
        scores, positives, counts=counts, columns=dict(t2v=[Columns(more)]), direction='t2v'
    )
    wide, own = torch.cat([scores, more], 1), torch.cat([positives, positives & False], 1)
    total = sum(
        counts[t].item() * by_loops(wide[t : t + 1], own[t : t + 1], torch.ones(1, 8), 0.5, 0.01)
        for t in range(4)
    )
    assert value.item() == pytest.approx(total / counts[:4].sum().item(), rel=1e-12)


def test_it_becomes_infonce(case):
    """Its gradient, as q falls."""
    scores, positives, _ = (x.clone() for x in case)
    scores.requires_grad_()
    (expected,) = torch.autograd.grad(contrastive(scores, positives), scores)
    (found,) = torch.autograd.grad(rince(scores, positives, q=1e-7, density=0.3), scores)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_at_one_a_bad_pair_does_not_lead():
    """InfoNCE pulls a pair the more the worse it fits; at q = 1 the pull is as e^s."""
    pulls = []
    for own in (-2.0, 2.0):
        scores = torch.tensor([[own, 0.0]], requires_grad=True)
        (gradient,) = torch.autograd.grad(
            rince(scores, scores > 9 * torch.tensor([[-1.0, 1.0]]), q=1.0, direction='t2v'), scores
        )
        pulls.append(-gradient[0, 0].item())
    assert pulls[1] / pulls[0] == pytest.approx(math.exp(4.0), rel=1e-5)


def test_gradients_nothing_and_bad_arguments(case):
    scores, positives, weights = (x.clone() for x in case)
    scores.requires_grad_(), weights.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s, w: rince(s, positives, weights=w, temperature=0.4), (scores, weights)
    )
    assert rince(scores, positives & False) == 0 == rince(scores[:0], positives[:0])
    for wrong, message in (
        (dict(q=0.0), 'q must lie in'),
        (dict(q=1.1), 'q must lie in'),
        (dict(density=0.0), 'density must be positive'),
        (dict(density=math.inf), 'density must be positive'),
    ):
        with pytest.raises(ValueError, match=message):
            rince(scores, positives, **wrong)
        with pytest.raises(ValueError, match=message):
            RINCELoss(**wrong)
    with pytest.raises(ValueError, match="form='own_pair' does not"):
        RINCELoss(form='own_pair')
