import math

import pytest
import torch

from mmvtr.functional.contrastive import contrastive


@pytest.fixture
def case():
    """Scores, positives with siblings (T=6, V=4; text 5 has no video), weights; float64."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    positives = torch.zeros(6, 4, dtype=torch.bool)
    for t, v in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (4, 1)]:
        positives[t, v] = True
    weights = torch.rand(6, 4, generator=generator, dtype=torch.float64)
    return scores, positives, weights


def reference_rows(scores, positives, weights, form):
    """The equations, entry by entry."""
    terms = []
    for s, p, w in zip(scores.tolist(), positives.tolist(), weights.tolist()):
        own = [x for x, is_own in zip(s, p) if is_own]
        negative = sum(wx * math.exp(x) for x, is_own, wx in zip(s, p, w) if not is_own)
        if not own:
            continue
        total = sum(math.exp(x) for x in own) + negative
        if form == 'pooled':
            terms.append(-math.log(sum(math.exp(x) for x in own) / total))
        elif form == 'own_pair':
            terms += [-math.log(math.exp(x) / (math.exp(x) + negative)) for x in own]
        else:
            terms.append(sum(-math.log(math.exp(x) / total) for x in own) / len(own))
    return sum(terms) / len(terms)


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('temperature', [1.0, 0.07])
def test_equals_the_equation(case, form, weighted, temperature):
    scores, positives, weights = case
    w = weights if weighted else torch.ones_like(weights)
    t2v = reference_rows(scores / temperature, positives, w, form)
    v2t = reference_rows(scores.t() / temperature, positives.t(), w.t(), form)
    options = dict(temperature=temperature, weights=weights if weighted else None, form=form)
    for direction, expected in [('t2v', t2v), ('v2t', v2t), ('both', (t2v + v2t) / 2)]:
        value = contrastive(scores, positives, direction=direction, **options)
        assert value.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
def test_gradients(case, form):
    scores, positives, weights = (x.clone() for x in case)
    temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    scores.requires_grad_(), weights.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s, w, tau: contrastive(s, positives, temperature=tau, weights=w, form=form),
        (scores, weights, temperature),
    )


def test_one_pair_a_row_is_symmetric_cross_entropy():
    scores = torch.randn(5, 5, dtype=torch.float64)
    labels = torch.arange(5)
    expected = torch.nn.functional.cross_entropy(scores, labels)
    expected = (expected + torch.nn.functional.cross_entropy(scores.t(), labels)) / 2
    for form in ('pooled', 'own_pair', 'outer_sum'):
        value = contrastive(scores, torch.eye(5, dtype=torch.bool), form=form)
        torch.testing.assert_close(value, expected)


def test_golden_clip4clip(shared):
    import numpy as np

    golden = np.load(shared / 'golden' / 'clip4clip_losses.npz')
    scores = torch.from_numpy(golden['sim'])
    eye = torch.eye(len(scores), dtype=torch.bool)
    for direction, key in [('t2v', 'cross_en_row'), ('v2t', 'cross_en_col'), ('both', 'sym')]:
        value = contrastive(scores, eye, direction=direction)
        assert value.item() == pytest.approx(float(golden[key]), rel=1e-6)


def test_lower_weight_means_smaller_push(case):
    scores, positives, _ = case
    scores = scores.clone().requires_grad_()
    weights = torch.ones_like(scores)
    weights[0, 2] = 0.1
    (full,) = torch.autograd.grad(contrastive(scores, positives), scores)
    (eased,) = torch.autograd.grad(contrastive(scores, positives, weights=weights), scores)
    assert 0 < eased[0, 2] < full[0, 2]


def test_weight_zero_removes_a_negative():
    scores = torch.tensor([[-0.5, 0.5], [0.0, 0.4]], requires_grad=True)
    weights = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    loss = contrastive(
        scores, torch.eye(2).bool(), temperature=0.01, weights=weights, direction='t2v'
    )
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.item() == pytest.approx(0.0, abs=1e-6) and gradient[0].abs().max() == 0


def test_extremes_stay_finite():
    eye = torch.eye(3, dtype=torch.bool)
    scores = torch.tensor([[1.0, -1, 1], [0, 1, 0], [1, 1, 1]], requires_grad=True)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        loss = contrastive(scores.to(dtype), eye, temperature=1e-3, weights=torch.zeros(3, 3))
        (gradient,) = torch.autograd.grad(loss, scores)
        assert loss.item() == 0 and torch.isfinite(gradient).all()
    loss = contrastive(scores, torch.ones(3, 3, dtype=torch.bool))  # no negatives at all
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.item() == 0 and torch.isfinite(gradient).all()
    loss = contrastive(scores, torch.zeros(3, 3, dtype=torch.bool))  # no positives at all
    assert loss.item() == 0 and loss.requires_grad


def test_bad_input(case):
    scores, positives, _ = case
    with pytest.raises(ValueError, match='form must be'):
        contrastive(scores, positives, form='sum')
    with pytest.raises(ValueError, match='direction must be'):
        contrastive(scores, positives, direction='v2v')
    with pytest.raises(ValueError, match='differ'):
        contrastive(scores, positives[:, :3])
