"""Each step between DVTR as printed and its sound reading, compared with loops over pairs."""

import math

import pytest
import torch
from study_parts.dvtr_steps import BIAS, DVTRStepsSupervision

from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.target import Target
from mmvtr.structures import Embedding

D, T, V = 6, 5, 4
OWN = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)]
SLOPE = math.log1p(math.exp(torch.tensor(math.log(math.expm1(2.0))).item()))  # 2, of float32


@pytest.fixture
def batch():
    """Gaussians of 5 texts and 4 videos, float64; texts 0 and 1 belong to video 0."""
    generator = torch.Generator().manual_seed(0)

    def gaussians(n):
        mean, log_std = 0.4 * torch.randn(2, n, D, generator=generator, dtype=torch.float64)
        return {'gaussian': Embedding(mean.requires_grad_(), log_std=log_std.requires_grad_())}

    positives = torch.zeros(T, V, dtype=torch.bool)
    positives[tuple(zip(*OWN))] = True
    return gaussians(T), gaussians(V), Target(positives)


def distances(texts, videos):
    """W / D of all pairs, T x V floats."""
    a, b = texts['gaussian'], videos['gaussian']
    return [
        [
            sum(
                (a.mean[t, d] - b.mean[v, d]).item() ** 2
                + (a.log_std[t, d].exp() - b.log_std[v, d].exp()).item() ** 2
                for d in range(D)
            )
            / D
            for v in range(V)
        ]
        for t in range(T)
    ]


def softplus(x):
    return math.log1p(math.exp(x))


def leaves(*sides):
    return [x for side in sides for x in (side['gaussian'].mean, side['gaussian'].log_std)]


def test_its_defaults_are_the_sound_reading(batch):
    texts, videos, target = batch
    sound, steps = (kind().double() for kind in (DVTRSupervision, DVTRStepsSupervision))
    (one, losses), (other, theirs) = (module(texts, videos, target) for module in (sound, steps))
    torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=0)
    assert losses.keys() == theirs.keys()
    for name, value in losses.items():
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=0)


def test_positives_alone_read_a_standardised_distance(batch):
    texts, videos, target = batch
    module = DVTRStepsSupervision(match='positives', floor=0.0).double()
    out, losses = module(texts, videos, target)
    w = distances(texts, videos)
    each = [x for row in w for x in row]
    mean = sum(each) / len(each)
    spread = math.sqrt(sum((x - mean) ** 2 for x in each) / len(each))
    logits = [[BIAS - SLOPE * (x - mean) / spread for x in row] for row in w]
    expected = sum(softplus(-logits[t][v]) for t, v in OWN) / len(OWN)
    assert losses['loss_match'].item() == pytest.approx(expected, rel=1e-9)
    p = [[1 / (1 + math.exp(-x)) for x in row] for row in logits]
    for t in range(T):
        for v in range(V):
            best = max(
                max(p[i][j] for i, j in OWN if i == t), max(p[i][j] for i, j in OWN if j == v)
            )
            eta = max(1 - p[t][v] / best, 0.0)
            assert out.weights[t, v].item() == pytest.approx(eta, rel=1e-9, abs=1e-12)
    assert not module.slope.requires_grad and not module.bias.requires_grad
    # A test uses the last batch's mean and deviation, however many items it gets at once.
    module.eval()
    eta = module.matrices(texts, videos)['eta']
    some = {'gaussian': texts['gaussian'].map(lambda x: x[:2])}
    torch.testing.assert_close(module.matrices(some, videos)['eta'], eta[:2])
    torch.testing.assert_close(1 - eta, torch.tensor(p, dtype=torch.float64))


def test_all_pairs_move_what_positives_are_measured_by(batch):
    """The gradient is that of the whole standardised distance, mean and deviation as well."""
    texts, videos, target = batch
    module = DVTRStepsSupervision(match='positives').double()

    def loss(*moved):
        sides = ({'gaussian': Embedding(moved[k], log_std=moved[k + 1])} for k in (0, 2))
        return module(*sides, target)[1]['loss_match']

    assert torch.autograd.gradcheck(loss, leaves(texts, videos))
    # Drawing all pairs together gains nothing: a common scale does not change the loss.
    doubled = [
        x * 2 if k % 2 == 0 else x + math.log(2) for k, x in enumerate(leaves(texts, videos))
    ]
    torch.testing.assert_close(loss(*doubled), loss(*leaves(texts, videos)))


def test_only_a_joint_batch_is_measured(batch):
    """Pairs with a bank, and an empty batch, do not change what a test reads."""
    texts, videos, target = batch
    module = DVTRStepsSupervision(match='positives').double()
    module(texts, videos, target)
    held = [module.centre.clone(), module.spread.clone()]
    far = {'gaussian': videos['gaussian'].map(lambda x: x + 3.0)}
    module.weigh(texts, far, target.positives)
    none = {'gaussian': texts['gaussian'].map(lambda x: x[:0])}
    module(none, videos, Target(target.positives[:0]))
    assert [module.centre, module.spread] == held
    assert (
        'centre' in module.state_dict() and module.matrices(texts, videos)['eta'].isfinite().all()
    )


@pytest.mark.parametrize('prior', [0.05, 0.9])
def test_unlabelled_is_the_non_negative_risk(batch, prior):
    texts, videos, _ = batch
    module = DVTRStepsSupervision(match='unlabelled', prior=prior).double()
    w = distances(texts, videos)
    own = [(t, min(range(V), key=w[t].__getitem__)) for t in range(T)]
    positives = torch.zeros(T, V, dtype=torch.bool)
    positives[tuple(zip(*own))] = True
    loss = module(texts, videos, Target(positives))[1]['loss_match']
    logits = [[2.0 - SLOPE * x for x in row] for row in w]
    found = sum(softplus(-logits[t][v]) for t, v in own) / T
    missed = sum(softplus(logits[t][v]) for t, v in own) / T
    rest = [(t, v) for t in range(T) for v in range(V) if (t, v) not in own]
    others = sum(softplus(logits[t][v]) for t, v in rest) / len(rest)
    assert (others < prior * missed) == (prior == 0.9)  # both sides of the bound
    expected = prior * found + max(others - prior * missed, 0.0)
    assert loss.item() == pytest.approx(expected, rel=1e-9)


def test_kl_takes_the_place_of_the_distance(batch):
    texts, videos, target = batch
    found = [
        DVTRStepsSupervision(divergence=kind).double()(texts, videos, target)[1]['loss_align']
        for kind in ('kl', 'wasserstein')
    ]
    w, kl = distances(texts, videos), 0.0
    normal = torch.distributions.Normal
    for t, v in OWN:
        p, q = (
            normal(e['gaussian'].mean[k], e['gaussian'].log_std[k].exp())
            for e, k in ((texts, t), (videos, v))
        )
        kl += torch.distributions.kl_divergence(p, q).sum().item() / D - w[t][v]
    assert (found[0] - found[1]).item() == pytest.approx(kl / len(OWN), rel=1e-9)


def test_the_loss_may_move_eta(batch):
    """With Eq. 13 as printed, the gradient is that of the weights, with fixed references."""
    texts, videos, target = batch
    module = DVTRStepsSupervision(through_eta=True, floor=0.0).double()
    weights = module(texts, videos, target)[0].weights
    assert not DVTRStepsSupervision().double()(texts, videos, target)[0].weights.requires_grad
    t, v = 0, 2
    (grad,) = torch.autograd.grad(weights[t, v], texts['gaussian'].mean)
    held, step = texts['gaussian'].mean, 1e-6

    def p(by):
        moved = held.detach().clone()
        moved[t, 0] += by
        side = {'gaussian': texts['gaussian']._replace(mean=moved)}
        return 1 / (1 + math.exp(SLOPE * distances(side, videos)[t][v] - 2.0))

    w = distances(texts, videos)
    best = max(1 / (1 + math.exp(SLOPE * w[i][j] - 2.0)) for i, j in OWN if i == t or j == v)
    expected = -(p(step) - p(-step)) / (2 * step) / best
    assert grad[t, 0].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    'wrong, said',
    [
        (dict(match='all'), 'match must be one of'),
        (dict(divergence='js'), 'divergence must be one of'),
        (dict(prior=0.0), r'prior must lie in \(0, 1\)'),
    ],
)
def test_bad_arguments(wrong, said):
    with pytest.raises(ValueError, match=said):
        DVTRStepsSupervision(**wrong)
