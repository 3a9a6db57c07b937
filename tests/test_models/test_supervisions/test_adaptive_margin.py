"""CMGSD's supervision: margins of a joint batch, no gradient through them, faded in."""

import pytest
import torch

from mmvtr.functional.losses.ranking import margin_ranking
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.cmgsd import AdaptiveMarginSupervision
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

OWNERS = [[0], [0], [1, 2], [3]]  # videos of 4 texts


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)

    def levels(n):
        vectors = 3 * torch.randn(n, 6, generator=generator, dtype=torch.float64)
        return {'global': Embedding(vectors.requires_grad_())}

    positives = torch.zeros(4, 4, dtype=torch.bool)
    for t, owners in enumerate(OWNERS):
        positives[t, owners] = True
    return levels(4), levels(4), Target(positives)


def by_loops(texts, videos, alpha, beta):
    """The formula, number by number."""

    def cos(side, i, j):
        a, b = side['global'].mean[i].detach(), side['global'].mean[j].detach()
        return float(a @ b / a.norm() / b.norm())

    def mean(values):
        return sum(values) / len(values)

    texts_of = [[t for t, owners in enumerate(OWNERS) if v in owners] for v in range(4)]
    kinds = [
        [[1 - mean([cos(videos, p, v) for p in OWNERS[t]]) for v in range(4)] for t in range(4)],
        [[1 - mean([cos(texts, t, s) for s in texts_of[v]]) for v in range(4)] for t in range(4)],
    ]
    margins = torch.zeros(4, 4, dtype=torch.float64)
    for x in kinds:
        others = [x[t][v] for t in range(4) for v in range(4) if v not in OWNERS[t]]
        centre = mean(others)
        std = mean([(value - centre) ** 2 for value in others]) ** 0.5
        for t in range(4):
            for v in range(4):
                margins[t, v] += max(alpha + beta * (x[t][v] - centre) / std, 0) / 2
    return margins


def test_margins_equal_loops(batch):
    texts, videos, target = batch
    given, logs = AdaptiveMarginSupervision(alpha=0.2, beta=0.1)(texts, videos, target)
    expected = by_loops(texts, videos, 0.2, 0.1)
    torch.testing.assert_close(given.margins, expected)
    assert not given.margins.requires_grad and given._replace(margins=None) == target
    spread = expected[~target.positives].std(correction=0)
    assert logs['margin_std'].item() == pytest.approx(spread.item()) and spread > 0.02


def test_the_ranking_loss_takes_them(batch):
    texts, videos, target = batch
    scores = CosineSimilarity()(texts, videos)['scores']
    given, _ = AdaptiveMarginSupervision()(texts, videos, target)
    loss = RankingLoss(margin=0.7)({'scores': scores}, given, 1.0)
    expected = margin_ranking(scores, target.positives, margin=by_loops(texts, videos, 0.2, 0.1))
    torch.testing.assert_close(loss, expected)


def test_beta_0_and_the_ramp(batch):
    texts, videos, target = batch
    flat, logs = AdaptiveMarginSupervision(alpha=0.3, beta=0.0)(texts, videos, target)
    torch.testing.assert_close(flat.margins, torch.full((4, 4), 0.3, dtype=torch.float64))
    assert logs['margin_std'].item() == pytest.approx(0, abs=1e-12)
    module = AdaptiveMarginSupervision(ramp=(0.25, 0.75))
    full = by_loops(texts, videos, 0.2, 0.1)
    for progress, share in [(0.0, 0), (0.25, 0), (0.5, 0.5), (0.75, 1), (0.9, 1)]:
        module.progress = progress
        margins = module(texts, videos, target)[0].margins
        torch.testing.assert_close(margins, 0.2 + share * (full - 0.2))


def test_batches_of_nothing_or_of_matches_only(batch):
    texts, videos, _ = batch
    for t, v in ((0, 0), (0, 2), (2, 0), (1, 1)):
        some = [
            {'global': Embedding(side['global'].mean[:n])}
            for side, n in zip((texts, videos), (t, v))
        ]
        target = Target(torch.ones(t, v, dtype=torch.bool))
        given, logs = AdaptiveMarginSupervision()(*some, target)
        assert given.margins.shape == (t, v) and logs['margin_std'].item() == 0
        torch.testing.assert_close(given.margins, torch.full_like(given.margins, 0.2))


def test_bad_arguments():
    for bad, message in (
        (dict(alpha=0.0), 'alpha must be positive, not 0.0'),
        (dict(beta=-1.0), 'beta must be at least 0, not -1.0'),
        (dict(ramp=(0.5, 0.2)), r'ramp must be \(start, end\)'),
    ):
        with pytest.raises(ValueError, match=message):
            MODELS.build(dict(type='mmvtr.AdaptiveMarginSupervision', **bad))


@pytest.mark.parametrize(
    ('kind', 'slot'),
    [
        ('AdaptiveMarginSupervision', 'margins'),
        ('DVTRSupervision', 'weights'),
        ('LiteralDVTRSupervision', 'weights'),
        ('RelevanceSupervision', 'weights'),
        ('RelativeScoreSupervision', 'weights'),
    ],
)
def test_what_no_loss_reads_is_refused(kind, slot):
    with pytest.raises(ValueError, match=f'{kind} fills target.{slot}, which no loss reads'):
        VideoTextRetriever(
            encoder=torch.nn.Identity(),
            similarity=dict(type='mmvtr.CosineSimilarity'),
            supervision=dict(type=f'mmvtr.{kind}'),
            losses=dict(distillation=dict(type='mmvtr.DistillationLoss')),
        )
