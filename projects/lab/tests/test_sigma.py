"""Weights of negatives from the sigma of their texts, alone and as a floor of other weights."""

import math

import pytest
import torch
from study_parts.sigma import SigmaSupervision, shares_below

from mmvtr.models.combined import CombinedSupervision
from mmvtr.models.target import Annotation, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

LOG_STD = torch.tensor([[0.0, 0.3], [0.4, -0.2], [-1.0, 0.1], [0.3, 0.0], [0.9, 0.5]]).double()


@pytest.fixture
def texts():
    """Texts 0 and 3 are equally sure, text 2 is the surest, text 4 the least sure."""
    return {'gaussian': Embedding(torch.zeros_like(LOG_STD), log_std=LOG_STD.clone())}


@pytest.fixture
def target():
    """Five texts, three videos; two videos have two texts each."""
    positives = torch.zeros(5, 3, dtype=torch.bool)
    positives[range(5), [0, 0, 1, 2, 2]] = True
    sure = torch.linspace(0.05, 1.0, 15, dtype=torch.float64).reshape(5, 3)
    return Target(positives, known=Annotation(agreement=sure.log()))


def shares(sigmas):
    """Compute the shares text by text."""
    found = []
    for i, own in enumerate(sigmas):
        others = [other for j, other in enumerate(sigmas) if j != i]
        ties = sum(other == own for other in others)
        found.append((sum(other < own for other in others) + ties / 2) / max(len(others), 1))
    return found


@pytest.mark.parametrize('progress, share', [(0.2, 0.0), (0.3, 0.5), (1.0, 1.0)])
@pytest.mark.parametrize('half, floor', [(0.5, 0.0), (1.0, 0.2), (0.3, 0.1)])
def test_weights_equal_the_formula(texts, target, progress, share, half, floor):
    module = MODELS.build(dict(type='SigmaSupervision', half=half, floor=floor, ramp=(0.2, 0.4)))
    module.progress = progress
    found, logs = module(texts, {}, target)
    sigmas = [math.exp((a + b) / 2) for a, b in [(0, 0.3), (0.4, -0.2), (-1, 0.1), (0, 0.3)]]
    sigmas.append(math.exp(0.7))
    etas = [max(floor, 1 - min(1, r / half)) for r in shares(sigmas)]
    expected = torch.tensor([[1 - share * (1 - eta)] * 3 for eta in etas])
    assert torch.allclose(found.weights, expected.double())
    assert found.positives is target.positives and found.counts is None
    pushed = [eta for eta, row in zip(etas, target.positives) for own in row if not own]
    assert logs['eta_negative'].item() == pytest.approx(sum(pushed) / len(pushed))
    assert logs['down_weighted_per_text'].item() == pytest.approx(sum(e < 0.5 for e in pushed) / 5)


def test_as_a_floor_it_spares_nothing_of_a_sure_text(texts, target):
    words = dict(type='ImplicationSupervision', floor=0.0, specific=0.0)
    both = CombinedSupervision(
        parts=dict(words=words, sigma=dict(type='SigmaSupervision', half=0.5)), combine='max'
    )
    alone, _ = MODELS.build(words)({}, {}, target)
    found, logs = both(texts, {}, target)
    floors = 1 - (torch.tensor(shares(LOG_STD.mean(1).tolist())).double() / 0.5).clamp(max=1)
    assert torch.allclose(found.weights, torch.maximum(alone.weights, floors[:, None]))
    assert torch.equal(found.weights[2], torch.ones(3).double())  # the surest
    assert torch.equal(found.weights[4], alone.weights[4])  # the least sure
    assert {'words_eta_negative', 'sigma_eta_negative'} <= set(logs)


def test_counts_are_those_of_the_words(texts, target):
    words = dict(type='ImplicationSupervision')
    both = CombinedSupervision(
        parts=dict(words=words, sigma=dict(type='SigmaSupervision')), combine='max'
    )
    alone, _ = MODELS.build(words)({}, {}, target)
    found, _ = both(texts, {}, target)
    assert torch.equal(found.counts, alone.counts) and (found.counts < 1).any()


def test_nothing_of_it_is_learnt(texts, target):
    texts['gaussian'].log_std.requires_grad_()
    found, logs = SigmaSupervision()(texts, {}, target)
    assert not found.weights.requires_grad and not any('loss' in name for name in logs)
    assert not list(SigmaSupervision().parameters())


@pytest.mark.parametrize('count', [0, 1])
def test_few_texts(count):
    texts = {'gaussian': Embedding(torch.zeros(count, 2), log_std=torch.zeros(count, 2))}
    found, _ = SigmaSupervision()(texts, {}, Target(torch.ones(count, 1, dtype=torch.bool)))
    assert torch.equal(found.weights, torch.ones(count, 1))


def test_before_sigma_says_anything_half_of_the_others_are_below():
    assert torch.equal(shares_below(torch.ones(5)), torch.full((5,), 0.5))


@pytest.mark.parametrize(
    'levels, message',
    [
        ({}, "level 'gaussian' is missing; give the model heads"),
        ({'gaussian': Embedding(torch.zeros(2, 2))}, "level 'gaussian' is not Gaussian"),
    ],
)
def test_a_model_without_heads(levels, message):
    with pytest.raises(ValueError, match=message):
        SigmaSupervision()(levels, {}, Target(torch.eye(2).bool()))


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(half=0.0), r'half must lie in \(0, 1\], not 0.0'),
        (dict(half=1.5), r'half must lie in \(0, 1\], not 1.5'),
        (dict(floor=2.0), r'floor must lie in \[0, 1\], not 2.0'),
        (dict(ramp=(0.5, 0.1)), r'ramp must be \(start, end\)'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        SigmaSupervision(**wrong)
