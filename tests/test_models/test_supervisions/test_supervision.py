import math

import pytest
import torch

from mmvtr.models.supervisions.dvtr import (
    REFERENCES,
    DVTRSupervision,
    LiteralDVTRSupervision,
    relative_uncertainty,
)
from mmvtr.models.target import Target
from mmvtr.structures import Embedding

D = 6


@pytest.fixture
def batch():
    """Gaussians of 4 texts and 3 videos, float64; texts 0 and 1 belong to video 0."""
    generator = torch.Generator().manual_seed(0)

    def gaussians(n):
        mean, log_std = 0.4 * torch.randn(2, n, D, generator=generator, dtype=torch.float64)
        return {'gaussian': Embedding(mean, log_std=log_std)}

    positives = torch.zeros(4, 3, dtype=torch.bool)
    for t, v in [(0, 0), (1, 0), (2, 1), (3, 2)]:
        positives[t, v] = True
    return gaussians(4), gaussians(3), Target(positives)


def w2(texts, videos, t, v):
    a, b = texts['gaussian'], videos['gaussian']
    return sum(
        (a.mean[t, d] - b.mean[v, d]).item() ** 2
        + (math.exp(a.log_std[t, d]) - math.exp(b.log_std[v, d])) ** 2
        for d in range(D)
    )


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


#: reference of the paper's eta -> of p_t and p_v, in words of python.
BY_HAND = dict(
    max=max,
    min=min,
    mean=lambda p_t, p_v: (p_t + p_v) / 2,
    text=lambda p_t, p_v: p_t,
    video=lambda p_t, p_v: p_v,
)


@pytest.mark.parametrize('reference', REFERENCES)
@pytest.mark.parametrize('sharpness', [1.0, 2.0])
def test_eta_and_match_loss_equal_the_equations(batch, sharpness, reference):
    texts, videos, target = batch
    module = DVTRSupervision(floor=0.02, sharpness=sharpness, reference=reference).double()
    slope = math.log1p(math.exp(module.slope.item()))
    out, losses = module(texts, videos, target)

    p = [
        [sigmoid(module.bias.item() - slope * w2(texts, videos, t, v) / D) for v in range(3)]
        for t in range(4)
    ]
    positive = target.positives.tolist()
    for t in range(4):
        for v in range(3):
            p_t = max(p[t][j] for j in range(3) if positive[t][j])
            p_v = max(p[i][v] for i in range(4) if positive[i][v])
            eta = max(1 - (p[t][v] / BY_HAND[reference](p_t, p_v)) ** sharpness, 0.02)
            assert out.weights[t, v].item() == pytest.approx(eta, rel=1e-9)
    logs = [
        -math.log(p[t][v] if positive[t][v] else 1 - p[t][v]) for t in range(4) for v in range(3)
    ]
    assert losses['loss_match'].item() == pytest.approx(sum(logs) / 12, rel=1e-9)
    assert not out.weights.requires_grad
    torch.testing.assert_close(out.positives, target.positives)


def test_align_loss_is_equation_8_with_w2(batch):
    """With vanishing spread the samples are the means."""
    texts, videos, target = batch
    tiny = {
        k: {
            'gaussian': v['gaussian']._replace(
                log_std=torch.full_like(v['gaussian'].log_std, -30.0)
            )
        }
        for k, v in (('t', texts), ('v', videos))
    }
    _, losses = DVTRSupervision().double()(tiny['t'], tiny['v'], target)
    expected = []
    for t, v in [(0, 0), (1, 0), (2, 1), (3, 2)]:
        a, b = texts['gaussian'].mean[t], videos['gaussian'].mean[v]
        expected.append(w2(tiny['t'], tiny['v'], t, v) / D - (a @ b / a.norm() / b.norm()).item())
    assert losses['loss_align'].item() == pytest.approx(sum(expected) / 4, rel=1e-9)


def test_ramp_goes_from_one_to_eta(batch):
    texts, videos, target = batch
    module = DVTRSupervision(ramp=(0.25, 0.75)).double()
    eta = module(texts, videos, target)[0].weights  # without a hook the training counts as done
    for progress, share in [(0.0, 0), (0.25, 0), (0.5, 0.5), (0.75, 1), (0.9, 1)]:
        module.progress = progress
        weights = module(texts, videos, target)[0].weights
        torch.testing.assert_close(weights, 1 - share * (1 - eta))


@pytest.mark.parametrize('reference', REFERENCES)
def test_relative_uncertainty_without_a_partner(reference):
    """The other side's partner stands in; where neither has one p itself is the match."""
    p = torch.tensor([[0.9, 0.3, 0.5], [0.2, 0.1, 0.4]], dtype=torch.float64)
    positives = torch.tensor([[True, False, False], [False, False, False]])
    eta = relative_uncertainty(p, positives, floor=0.0, reference=reference)
    own = [[0.9, 0.9, 0.9], [0.9, 1.0, 1.0]]  # text 1, videos 1 and 2 have no partner
    expected = [[max(1 - p[t, v].item() / own[t][v], 0) for v in range(3)] for t in range(2)]
    torch.testing.assert_close(eta, torch.tensor(expected, dtype=torch.float64))


def test_the_text_alone_knows_what_a_general_caption_can_reach():
    """Text 1 is general: with its own clip, a clear one, it reaches .2, and as much with clip 0."""
    p = torch.tensor([[0.8, 0.05], [0.2, 0.2]])
    positives = torch.eye(2).bool()
    eta = {r: relative_uncertainty(p, positives, floor=0.0, reference=r)[1, 0] for r in REFERENCES}
    assert eta['text'] == eta['min'] == 0
    assert eta['max'] == eta['video'] == pytest.approx(0.75)
    assert eta['mean'] == pytest.approx(0.6)


def test_an_empty_batch_has_no_weights():
    assert relative_uncertainty(torch.zeros(0, 3), torch.zeros(0, 3).bool(), floor=0).numel() == 0


def test_weights_of_the_losses(batch):
    plain = DVTRSupervision().double()(*batch)[1]
    dosed = DVTRSupervision(match_weight=0.25, align_weight=3.0).double()(*batch)[1]
    torch.testing.assert_close(dosed['loss_match'], 0.25 * plain['loss_match'])
    torch.testing.assert_close(dosed['loss_align'], 3.0 * plain['loss_align'])


def test_figures_for_the_log(batch):
    """Means and shares over the negatives, by loops."""
    module = DVTRSupervision(floor=0.0, sharpness=8.0).double()
    target, losses = module(*batch)
    p = module.match_logits(*batch[:2]).sigmoid()
    negatives = [(t, v) for t in range(4) for v in range(3) if not target.positives[t, v]]
    eta = [target.weights[t, v].item() for t, v in negatives]
    sure = sum(x > 0.9 for x in eta) / len(eta)
    assert 0 < sure < 1
    assert losses['eta_sure'].item() == pytest.approx(sure)
    assert losses['eta_negative'].item() == pytest.approx(sum(eta) / len(eta))
    own = sum(p[t, v].item() for t, v in negatives) / len(eta)
    assert losses['match_negative'].item() == pytest.approx(own)


def test_soft_positive_gets_a_small_weight():
    """Text 0 also describes video 1: same Gaussian as its own video."""
    mean = torch.randn(3, 64)
    mean[1] = mean[0]
    levels = {'gaussian': Embedding(mean, log_std=torch.zeros(3, 64))}
    out, _ = DVTRSupervision()(levels, levels, Target(torch.eye(3, dtype=torch.bool)))
    assert out.weights[0, 1] == pytest.approx(0.02)
    assert out.weights[0, 2] > 0.5


def test_literal_equals_the_printed_equations(batch):
    texts, videos, target = batch
    module = LiteralDVTRSupervision(hidden=3).double()
    out, losses = module(texts, videos, target)
    first, _, last = module.mlp
    eta = torch.empty(4, 3, dtype=torch.float64)
    for t in range(4):
        for v in range(3):
            hidden = (first.weight[:, 0] * w2(texts, videos, t, v) + first.bias).clamp_min(0)
            eta[t, v] = sigmoid(-(last.weight[0] @ hidden + last.bias[0]).item())
    torch.testing.assert_close(out.weights, eta)
    assert out.weights.requires_grad  # the letter has no stop-gradient
    own = [eta[t, v] for t, v in [(0, 0), (1, 0), (2, 1), (3, 2)]]
    assert losses['loss_match'].item() == pytest.approx(-sum(own).item() / 4)


def test_literal_align_is_the_last_line_of_equation_8(batch):
    texts, videos, target = batch
    narrow = {
        k: {
            'gaussian': v['gaussian']._replace(
                log_std=torch.full_like(v['gaussian'].log_std, -20.0)
            )
        }
        for k, v in (('t', texts), ('v', videos))
    }
    _, losses = LiteralDVTRSupervision().double()(narrow['t'], narrow['v'], target)
    expected = []
    for t, v in [(0, 0), (1, 0), (2, 1), (3, 2)]:
        a, b = texts['gaussian'].mean[t], videos['gaussian'].mean[v]
        # Equal spreads: KL is half the squared distance over the variance.
        expected.append(((a - b) @ (a - b) / (2 * math.exp(-40)) - a @ b).item())
    assert losses['loss_align'].item() == pytest.approx(sum(expected) / 4, rel=1e-6)


def test_bad_arguments():
    for bad in (
        dict(num_samples=0),
        dict(floor=1.5),
        dict(sharpness=0),
        dict(reference='own'),
        dict(match_weight=-1.0),
        dict(align_weight=-0.1),
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            DVTRSupervision(**bad)
    with pytest.raises(ValueError, match="reference must be one of .*, not 'own'"):
        relative_uncertainty(torch.ones(1, 1), torch.ones(1, 1).bool(), floor=0, reference='own')
