"""Weights of negatives from scores: loops in float64, and numbers of official code."""

import math
import re

import numpy as np
import pytest
import torch

from mmvtr.functional import (
    contrastive,
    debiased_weights,
    guide_mask,
    guide_weights,
    hardness_weights,
)


@pytest.fixture
def scores():
    """5 texts x 4 videos; text 1 has two own videos, text 4 none, text 2 a negative own score."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.rand(5, 4, generator=generator, dtype=torch.float64) * 2 - 1
    scores[2, 2] = -0.4
    return scores


@pytest.fixture
def positives():
    positives = torch.zeros(5, 4, dtype=torch.bool)
    positives[[0, 1, 1, 2, 3], [0, 1, 3, 2, 3]] = True
    return positives


def own_of(scores, positives):
    return scores.masked_fill(~positives, -torch.inf).amax(1)


BARS = dict(
    threshold=lambda own, m: m,
    absolute=lambda own, m: own - m,
    relative=lambda own, m: own - m * abs(own),
    share=lambda own, m: (1 - m) * own,
    self=lambda own, m: own + m,
)


@pytest.mark.parametrize('margin', [0.0, 0.3])
@pytest.mark.parametrize('rule', BARS)
def test_a_guide_by_loops(scores, positives, rule, margin):
    own = own_of(scores, positives)
    mask = guide_mask(scores, own, rule=rule, margin=margin)
    hard = guide_weights(scores, own, rule=rule, margin=margin)
    soft = guide_weights(scores, own, rule=rule, margin=margin, softness=0.2)
    some = 0
    for t in range(5):
        known = any(positives[t]) or rule == 'threshold'
        bar = BARS[rule](own[t].item(), margin) if known else math.inf
        for v in range(4):
            s = scores[t, v].item()
            assert mask[t, v].item() == (s > bar)
            assert hard[t, v].item() == float(not s > bar)
            expected = 1 - 1 / (1 + math.exp(-(s - bar) / 0.2)) if known else 1.0
            assert soft[t, v].item() == pytest.approx(expected, abs=1e-12)
            some += s > bar
    assert 0 < some < 20


def test_a_tie_with_the_bar_stays():
    guide = torch.tensor([[0.5, 0.5, 0.6]])
    assert guide_mask(guide, guide[:, 0]).tolist() == [[False, False, True]]


def test_a_share_and_its_other_reading_part_below_zero():
    """95 % of a negative score lies above it, and that of sentence-transformers below."""
    guide, own = torch.tensor([[-0.4, -0.41, -0.37]]), torch.tensor([-0.4])
    above = [guide_mask(guide, own, rule=r, margin=0.05).tolist()[0] for r in ('relative', 'share')]
    assert above == [[True, True, True], [False, False, True]]


def test_a_calibrated_weight_is_a_soft_threshold(scores):
    """Platt's sigmoid(a g + b)."""
    a, b = 7.0, -3.0
    found = guide_weights(
        scores, torch.full((5,), -torch.inf), rule='threshold', margin=-b / a, softness=1 / a
    )
    torch.testing.assert_close(found, 1 - torch.sigmoid(a * scores + b))


@pytest.mark.parametrize('over', [None, 't2v', 'v2t'])
@pytest.mark.parametrize('alpha', [0.0, 4.0, -2.0])
def test_hardness_by_loops(scores, positives, alpha, over):
    scores.requires_grad_()
    found = hardness_weights(scores, positives, alpha=alpha, over=over)
    assert not found.requires_grad
    for t in range(5):
        for v in range(4):
            expected = 1.0
            if not positives[t, v]:
                expected = math.exp(alpha * scores[t, v].item())
                others = [(t, j) for j in range(4)] if over == 't2v' else []
                others += [(i, v) for i in range(5)] if over == 'v2t' else []
                others = [(i, j) for i, j in others if not positives[i, j]]
                if over:
                    total = sum(math.exp(alpha * scores[i, j].item()) for i, j in others)
                    expected *= len(others) / total
            assert found[t, v].item() == pytest.approx(expected, rel=1e-12)


def debiased_loss(scores, own, prior, temperature):
    """Chuang et al., Eq. 8 with one positive, text by text; with autograd through all of it."""
    terms, floored = [], 0
    for t, v in enumerate(own):
        exp = [torch.exp(scores[t, j] / temperature) for j in range(scores.shape[1])]
        negatives = [e for j, e in enumerate(exp) if j != v]
        n = len(negatives)
        g = (sum(negatives) / n - prior * exp[v]) / (1 - prior)
        floor = math.exp(-1 / temperature)
        if g.item() < floor:
            g, floored = g * 0 + floor, floored + 1
        terms.append(-torch.log(exp[v] / (exp[v] + n * g)))
    return sum(terms) / len(terms), floored


@pytest.mark.parametrize('prior', [0.0, 0.05, 0.3])
@pytest.mark.parametrize('temperature', [0.2, 0.5])
def test_the_debiased_loss_by_loops_and_its_gradient(prior, temperature):
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(6, 6, generator=generator, dtype=torch.float64) * 2 - 1
    x, y = values.clone().requires_grad_(), values.clone().requires_grad_()
    expected, floored = debiased_loss(x, range(6), prior, temperature)
    eye = torch.eye(6).bool()
    weights = debiased_weights(y, eye, prior=prior, temperature=temperature)
    found = contrastive(y, eye, temperature=temperature, weights=weights, direction='t2v')
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(expected, x)[0], torch.autograd.grad(found, y)[0]
    torch.testing.assert_close(*gradients)
    assert (floored > 0) == (prior == 0.3)


def test_the_debiased_weights_are_finite_at_any_temperature():
    scores = torch.tensor([[1.0, -1.0, 0.9], [0.2, 0.3, 0.1], [0.1, 0.2, 0.3]]).requires_grad_()
    positives = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 1]]).bool()
    weights = debiased_weights(scores, positives, prior=0.1, temperature=0.01)
    assert (0 <= weights[0]).all() and (weights[0] < 1e-30).all() and (weights[1:] == 1).all()
    loss = contrastive(scores, positives, temperature=0.01, weights=weights, direction='t2v')
    (loss + weights.sum()).backward()
    assert scores.grad.isfinite().all()


def test_nothing_at_all():
    none, own = torch.zeros(0, 0), torch.zeros(0, 0).bool()
    assert guide_weights(none, torch.zeros(0)).shape == (0, 0)
    for shape in ((0, 0), (0, 3), (3, 0)):
        none, own = torch.zeros(shape), torch.zeros(shape).bool()
        for over in (None, 't2v', 'v2t'):
            assert hardness_weights(none, own, alpha=1.0, over=over).shape == shape
        assert debiased_weights(none, own, prior=0.1, temperature=0.1).shape == shape


def test_bad_arguments(scores, positives):
    own = own_of(scores, positives)
    with pytest.raises(ValueError, match='rule must be one of'):
        guide_mask(scores, own, rule='gist')
    for rule in ('absolute', 'relative', 'share', 'self'):
        with pytest.raises(ValueError, match='margin must be at least 0'):
            guide_weights(scores, own, rule=rule, margin=-0.1)
    assert guide_mask(scores, own, rule='threshold', margin=-0.1).any()
    with pytest.raises(ValueError, match='margin must be'):
        guide_mask(scores, own, rule='threshold', margin=math.nan)
    with pytest.raises(ValueError, match='softness must be at least 0'):
        guide_weights(scores, own, softness=-1.0)
    with pytest.raises(ValueError, match='over must be'):
        hardness_weights(scores, positives, alpha=1.0, over='both')
    with pytest.raises(ValueError, match='prior must lie'):
        debiased_weights(scores, positives, prior=1.0, temperature=0.1)


# -- numbers of official code -------------------------------------------------------------------


def close(found, expected):
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=1e-9, atol=1e-9)


def unit(x):
    return torch.nn.functional.normalize(torch.from_numpy(x), dim=1)


def same_loss(golden, case, loss, **gradients):
    """A loss and its gradients are the stored ones."""
    close(loss, golden[f'{case}.loss'])
    found = torch.autograd.grad(loss, list(gradients.values()), retain_graph=True)
    for name, gradient in zip(gradients, found):
        close(gradient, golden[f'{case}.{name}'])


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_gistembed(shared, size):
    golden = np.load(shared / 'golden/gistembed.npz')
    pattern = re.compile(rf'{size}\.(absolute|relative)_m([\d.]+)_T([\d.]+)_ca\d_cp\d_neg\d\.loss')
    found = [m for m in map(pattern.fullmatch, golden.files) if m]
    assert len(found) >= 5
    guide = torch.from_numpy(golden[f'{size}.guide_sim.ap'])
    whole = 0
    for match in found:
        case, rule, margin = match[0][: -len('.loss')], match[1], float(match[2])
        spared = guide_mask(guide, guide.diagonal(), rule=rule, margin=margin)
        eye = torch.eye(len(guide)).bool()
        kept = torch.from_numpy(golden[f'{case}.kept.ap']) if f'{case}.kept.ap' in golden else None
        if kept is not None:
            assert torch.equal(~spared | eye, kept | eye)
        if '_ca0_cp0_neg0' not in case:  # further columns
            continue
        a = unit(golden[f'{size}.anchor']).requires_grad_()
        p = unit(golden[f'{size}.positive'])
        sims = (a @ p.T).detach().requires_grad_()
        weights = guide_weights(guide, guide.diagonal(), rule=rule, margin=margin)
        loss = contrastive(sims, eye, temperature=float(match[3]), weights=weights, direction='t2v')
        same_loss(golden, case, loss, **{'grad_sim.ap': sims})
        whole += 1
    assert whole


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_llave(shared, size):
    golden = np.load(shared / 'golden/llave_hardness.npz')
    for scale, alpha in ((50, 9), (50, 0.5), (20, 9), (20, 0)):
        q, d = (torch.from_numpy(golden[f'{size}.{x}']).requires_grad_() for x in ('query', 'doc'))
        sims, eye = q @ d.T, torch.eye(len(q)).bool()
        weights = hardness_weights(sims, eye, alpha=alpha)
        loss = contrastive(sims, eye, temperature=1 / scale, weights=weights)
        same_loss(golden, f'{size}.s{scale}_alpha{alpha}', loss, **{'grad.query': q, 'grad.doc': d})


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_hardness_of_sentence_transformers(shared, size):
    golden = np.load(shared / 'golden/mnrl_hardness.npz')
    for case in ('base', 'inbatch9', 'inbatch9_sym', 'sym'):
        scale, strength, _ = golden[f'{size}.{case}.args']
        sims = torch.from_numpy(golden[f'{size}.sim_qd']).requires_grad_()
        eye = torch.eye(len(sims)).bool()
        weights = hardness_weights(sims, eye, alpha=float(strength))
        how = dict(temperature=1 / float(scale))
        loss = contrastive(sims, eye, weights=weights, direction='t2v', **how)
        if 'sym' in case:  # the other direction is not weighted
            loss = (loss + contrastive(sims, eye, direction='v2t', **how)) / 2
        same_loss(golden, f'{size}.{case}', loss, **{'grad_sim_qd': sims})


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_the_self_mask_of_qwen3_embedding(shared, size):
    golden = np.load(shared / 'golden/swift_infonce.npz')
    dropped = 0
    for masked in (0, 1):
        q, d = (torch.from_numpy(golden[f'{size}.{x}']).requires_grad_() for x in ('query', 'doc'))
        sims = q @ d.T
        weights = guide_weights(sims, sims.diagonal(), rule='self', margin=0.1) if masked else None
        loss = contrastive(
            sims, torch.eye(len(q)).bool(), temperature=0.1, weights=weights, direction='t2v'
        )
        case = f'{size}.T0.1_mask{masked}_m0.1_qq0_dd0_neg0_batch1'
        same_loss(golden, case, loss, **{'grad.query': q, 'grad.doc': d})
        dropped += 0 if weights is None else int((weights == 0).sum())
    assert dropped


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_the_self_mask_with_hardness(shared, size):
    """Of the equations of RzenEmbed as they have been described, in one direction and in both."""
    golden = np.load(shared / 'golden/selfmask_hardness_equations.npz')
    pattern = re.compile(rf'{size}\.T([\d.]+)_alpha([\d.]+)_delta([\d.]+)_dup0_both([01])\.loss')
    found = [m for m in map(pattern.fullmatch, golden.files) if m]
    assert len(found) >= 12
    for match in found:
        temperature, alpha, delta, both = (float(x) for x in match.groups())
        case = match[0][: -len('.loss')]
        sims = torch.from_numpy(golden[f'{size}.sims']).requires_grad_()
        eye = torch.eye(len(sims)).bool()
        losses = []
        for x in (sims, sims.T)[: 1 + int(both)]:
            mask = guide_weights(x, x.diagonal(), rule='self', margin=delta)
            weights = mask * hardness_weights(x, eye, alpha=alpha)
            losses.append(
                contrastive(x, eye, temperature=temperature, weights=weights, direction='t2v')
            )
            if f'{case}.dropped' in golden and not both:
                assert torch.equal(mask == 0, torch.from_numpy(golden[f'{case}.dropped']))
        same_loss(golden, case, sum(losses) / len(losses), grad=sims)
