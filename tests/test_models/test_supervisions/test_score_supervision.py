"""Weights of negatives from the model's own scores."""

import math

import pytest
import torch

from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.supervisions.relative_scores import RelativeScoreSupervision, relative_eta
from mmvtr.models.target import Annotation, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

#: Texts 0 and 1 belong to video 0, text 2 to video 1, text 3 to nobody; video 2 has no text.
PAIRS = {(0, 0), (1, 0), (2, 1)}


def items(count, seed):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(2, count, 5, generator=generator, dtype=torch.float64)
    return {level: Embedding(x) for level, x in zip(('global', 'aligned'), vectors)}


@pytest.fixture
def batch():
    positives = torch.zeros(4, 3, dtype=torch.bool)
    for pair in PAIRS:
        positives[pair] = True
    return items(4, 0), items(3, 1), Target(positives)


def cosine(a, b):
    dot, aa, bb = (sum(x * y for x, y in zip(p, q)) for p, q in ((a, b), (a, a), (b, b)))
    return dot / math.sqrt(aa * bb)


def reference(texts, videos, levels, slack, softness, more=None):
    """eta of every pair, by loops; ``more`` is added to the scores, pair by pair."""
    s = [
        [
            sum(cosine(texts[n].mean[t].tolist(), videos[n].mean[v].tolist()) for n in levels)
            / len(levels)
            for v in range(3)
        ]
        for t in range(4)
    ]
    eta = [[1.0] * 3 for _ in range(4)]
    for t in range(4):
        for v in range(3):
            of_text = [s[t][j] for j in range(3) if (t, j) in PAIRS]
            of_video = [s[i][v] for i in range(4) if (i, v) in PAIRS]
            if of_text and of_video:
                lead = (
                    s[t][v]
                    + slack
                    + (more[t][v] if more else 0.0)
                    - (max(of_text) + max(of_video)) / 2
                )
                eta[t][v] = 1 - min(1.0, math.exp(lead / softness))
    return torch.tensor(eta, dtype=torch.float64)


@pytest.mark.parametrize('levels', [('global',), ('global', 'aligned')])
@pytest.mark.parametrize('slack', [0.0, -0.3])
def test_weights_equal_the_formula(batch, levels, slack):
    texts, videos, target = batch
    module = RelativeScoreSupervision(levels=levels, slack=slack, softness=0.4)
    out, logs = module(texts, videos, target)
    expected = reference(texts, videos, levels, slack, 0.4)
    torch.testing.assert_close(out.weights, expected)
    negatives = ~target.positives
    assert logs['eta_negative'].item() == pytest.approx(expected[negatives].mean().item())
    spared = (expected[negatives] < 0.5).sum().item()
    assert logs['down_weighted_per_text'].item() == pytest.approx(spared / 4)
    assert not any('loss' in name for name in logs)


def test_a_second_view(batch):
    texts, videos, target = batch
    agreement = torch.randn(4, 3, generator=torch.Generator().manual_seed(5))
    module = RelativeScoreSupervision(slack=-0.1, agreement=0.3, softness=0.4)
    out, _ = module(texts, videos, target._replace(known=Annotation(agreement=agreement)))
    more = (0.3 * agreement.double()).tolist()
    expected = reference(texts, videos, ('global',), -0.1, 0.4, more)
    torch.testing.assert_close(out.weights, expected, rtol=0, atol=1e-6)
    assert (expected - reference(texts, videos, ('global',), -0.1, 0.4)).abs().max() > 0.1
    with pytest.raises(ValueError, match="no agreement: add .*type='CaptionAgreement'"):
        module(texts, videos, target)


@pytest.mark.parametrize('progress, share', [(0.05, 0.0), (0.2, 0.5), (0.3, 1.0), (0.9, 1.0)])
def test_the_ramp(batch, progress, share):
    texts, videos, target = batch
    module = RelativeScoreSupervision(floor=0.2, softness=0.4, ramp=(0.1, 0.3))
    module.progress = progress
    eta = reference(texts, videos, ('global',), 0.0, 0.4).clamp(min=0.2)
    torch.testing.assert_close(module(texts, videos, target)[0].weights, 1 - share * (1 - eta))


def test_no_gradient_through_the_weights(batch):
    texts, videos, target = batch
    texts['global'].mean.requires_grad_()
    out, _ = RelativeScoreSupervision()(texts, videos, target)
    assert not out.weights.requires_grad


def test_empty_batch_and_batch_without_positives():
    nothing = torch.zeros(0, 0, dtype=torch.bool)
    out, _ = RelativeScoreSupervision()(items(0, 0), items(0, 1), Target(nothing))
    assert out.weights.shape == (0, 0)
    out, _ = RelativeScoreSupervision()(
        items(2, 0), items(3, 1), Target(torch.zeros(2, 3, dtype=torch.bool))
    )
    assert torch.equal(out.weights, torch.ones(2, 3, dtype=torch.float64))


def test_half_precision_counts_in_float32():
    scores = torch.tensor([[0.5, 0.49], [0.1, 0.5]], dtype=torch.bfloat16)
    eta = relative_eta(scores, torch.eye(2).bool(), softness=0.1)
    assert eta.dtype == torch.float32


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(softness=0.0), 'softness must be positive, not 0.0'),
        (dict(floor=1.5), r'floor must lie in \[0, 1\], not 1.5'),
        (dict(ramp=(0.5, 0.1)), r'ramp must be \(start, end\)'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        RelativeScoreSupervision(**wrong)


@pytest.mark.parametrize('weighted', ['both', 't2v', 'v2t'])
def test_weights_count_in_the_chosen_direction(weighted):
    generator = torch.Generator().manual_seed(2)
    scores = torch.randn(4, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(4, 4, generator=generator, dtype=torch.float64)
    positives = torch.eye(4).bool()
    loss = ContrastiveLoss(weighted=weighted)
    value = loss({'scores': scores}, Target(positives, weights=weights), 0.5)
    expected = 0.0
    for direction in ('t2v', 'v2t'):
        counts = weighted in ('both', direction)
        for i in range(4):
            terms = []
            for j in range(4):
                t, v = (i, j) if direction == 't2v' else (j, i)
                weight = 1.0 if i == j or not counts else weights[t, v].item()
                terms.append(weight * math.exp(scores[t, v].item() / 0.5))
            expected += math.log(sum(terms) / terms[i]) / 8
    assert value.item() == pytest.approx(expected)
    torch.autograd.gradcheck(
        lambda s: loss({'scores': s}, Target(positives, weights=weights), 0.5), scores
    )


def test_an_unknown_direction_of_the_weights():
    with pytest.raises(ValueError, match="weighted must be one of .*, not 'up'"):
        MODELS.build(dict(type='ContrastiveLoss', weighted='up'))
    for weighted, direction in (('t2v', 'v2t'), ('v2t', 't2v')):
        with pytest.raises(ValueError, match=f"'{weighted}' leaves no weights for a loss"):
            ContrastiveLoss(direction=direction, weighted=weighted)
        ContrastiveLoss(direction=direction, weighted=direction)
