"""RAN: relevant entries leave the negatives of every loss."""

import pytest
import torch

from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.supervisions.weights import RelevanceSupervision
from mmvtr.models.target import Annotation, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding


@pytest.fixture
def case():
    """s [4, 5]: columns 0 and 1 are one video, texts 1 and 2 captions of one video."""
    scores = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positives = torch.zeros(4, 5, dtype=torch.bool)
    for t, v in [(0, 0), (0, 1), (1, 2), (2, 2), (3, 3)]:
        positives[t, v] = True
    relevance = torch.tensor(
        [
            [1.0, 1.0, 0.75, 0.5, 0.0],
            [0.74, 0.74, 1.0, 0.0, 0.75],
            [0.25, 0.25, 0.6, 0.0, 1.0],  # .6: a loose caption of its own video
            [0.0, 0.0, 0.25, 1.0, 0.0],
        ],
        dtype=torch.float64,
    )
    return scores, Target(positives, known=Annotation(relevance=relevance))


def test_relevant_entries_get_weight_0_annotated_ones_stay(case):
    _, target = case
    given, logs = RelevanceSupervision(negatives_below=0.75)({}, {}, target)
    relevant = {(0, 2), (1, 4), (2, 4)}
    for t in range(4):
        for v in range(5):
            assert given.weights[t, v] == (0.0 if (t, v) in relevant else 1.0)
            assert given.extras['relevant'][t, v] == ((t, v) in relevant)
    assert logs['relevant_per_text'].item() == 3 / 4
    assert given._replace(weights=None, extras={}) == target  # nothing else changes
    lower, _ = RelevanceSupervision(negatives_below=0.2)({}, {}, target)
    assert (lower.weights == 0).sum() == 9


def test_weights_of_another_supervision_are_kept(case):
    _, target = case
    eta = torch.rand(4, 5, dtype=torch.float64) + 0.1
    given, _ = RelevanceSupervision()({}, {}, target._replace(weights=eta))
    dropped = (target.known.relevance >= 0.75) & ~target.positives
    assert torch.equal(given.weights, torch.where(dropped, 0.0, eta))


@pytest.mark.parametrize('quantile', [0.0, 0.3, 0.5, 0.6, 0.8, 0.9, 0.99])
def test_a_quantile_of_the_unannotated_entries(case, quantile):
    """Relevant is what has a share ``quantile`` of them, or more, at or below it: ties stay out."""
    _, target = case
    pairs = [(t, v) for t in range(4) for v in range(5) if not target.positives[t, v]]
    values = sorted(float(target.known.relevance[pair]) for pair in pairs)
    below = next(x for x in values if sum(y <= x for y in values) >= quantile * len(values))
    given, logs = RelevanceSupervision(negatives_below=None, quantile=quantile)({}, {}, target)
    found = [pair for pair in pairs if target.known.relevance[pair] > below]
    assert [pair for pair in pairs if given.extras['relevant'][pair]] == found
    assert len(found) <= (1 - quantile) * len(pairs) + 1e-9 and (quantile > 0.8 or found)
    assert torch.equal(given.weights == 0, given.extras['relevant'])
    assert logs['relevant_per_text'].item() == len(found) / 4


def test_a_quantile_of_nothing_and_of_zeros():
    supervision = RelevanceSupervision(negatives_below=None, quantile=0.5)
    for positives in (torch.ones(2, 2), torch.zeros(0, 3), torch.eye(2)):
        target = Target(positives.bool(), known=Annotation(relevance=torch.zeros_like(positives)))
        given, _ = supervision({}, {}, target)
        assert not given.extras['relevant'].any() and (given.weights == 1).all()


def hardest_rows(scores, relevance, positives, tau, margin):
    """HGR's triplet where the costs of relevant pairs are 0, over all pairs."""
    total, pairs = 0.0, 0
    for s, r, p in zip(scores.tolist(), relevance.tolist(), positives.tolist()):
        for own, is_own in zip(s, p):
            if is_own:
                costs = [
                    max(0.0, margin + x - own)
                    for x, rel, match in zip(s, r, p)
                    if not match and rel < tau
                ]
                total, pairs = total + max(costs, default=0.0), pairs + 1
    return total / pairs


@pytest.mark.parametrize('tau', [0.2, 0.5, 0.75])
def test_ran_equals_loops(case, tau):
    scores, target = case
    t2v = hardest_rows(scores, target.known.relevance, target.positives, tau, 0.2)
    v2t = hardest_rows(
        *(x.t() for x in (scores, target.known.relevance, target.positives)), tau, 0.2
    )
    loss = RankingLoss(margin=0.2, negatives='hardest', average='anchors')
    given, _ = RelevanceSupervision(negatives_below=tau)({}, {}, target)
    leaf = scores.clone().requires_grad_()
    assert loss({'scores': leaf}, given, 1.0).item() == pytest.approx((t2v + v2t) / 2, rel=1e-12)
    assert torch.autograd.gradcheck(lambda s: loss({'scores': s}, given, 1.0), (leaf,))
    (gradient,) = torch.autograd.grad(loss({'scores': leaf}, given, 1.0), leaf)
    relevant = (target.known.relevance >= tau) & ~target.positives
    assert gradient[relevant].abs().sum() == 0 and gradient.abs().sum() > 0


def test_a_batch_of_one_action_teaches_nothing(case):
    scores, target = case
    one_action = target._replace(known=Annotation(relevance=torch.ones_like(scores)))
    given, logs = RelevanceSupervision()({}, {}, one_action)
    assert logs['relevant_per_text'].item() == (20 - 5) / 4
    for loss in (
        RankingLoss(),
        RankingLoss(negatives='hardest', average='anchors'),
        ContrastiveLoss(),
        ContrastiveLoss(form='own_pair'),
    ):
        leaf = scores.clone().requires_grad_()
        value = loss({'scores': leaf}, given, 0.05)
        (gradient,) = torch.autograd.grad(value, leaf)
        assert value.item() == pytest.approx(0, abs=1e-12)
        assert gradient.abs().max() < 1e-12


def test_an_empty_batch():
    empty = torch.zeros(0, 3)
    given, logs = RelevanceSupervision()(
        {}, {}, Target(empty.bool(), known=Annotation(relevance=empty))
    )
    assert given.weights.shape == (0, 3) and logs['relevant_per_text'].item() == 0


class Passing(torch.nn.Module):
    """Inputs are the embeddings."""

    dim = 4

    def encode_video(self, video, frame_mask):
        return {'global': Embedding(video.mean(1))}

    def encode_text(self, text, text_mask):
        return {'global': Embedding(text.mean(1))}


def test_from_the_classes_of_a_batch_to_the_loss():
    """Text 0 shares verb and noun with video 1: in the retriever they are no negatives."""
    model = VideoTextRetriever(
        encoder=Passing(),
        similarity=dict(type='mmvtr.CosineSimilarity'),
        supervision=dict(type='mmvtr.RelevanceSupervision', negatives_below=0.75),
        losses=dict(triplet=dict(type='mmvtr.RankingLoss', negatives='hardest', margin=0.2)),
    )
    inputs = dict(
        video=torch.randn(3, 1, 4).requires_grad_(),
        frame_mask=torch.ones(3, 1, dtype=torch.bool),
        text=torch.randn(3, 1, 4),
        text_mask=torch.ones(3, 1, dtype=torch.bool),
    )
    one_action = {kind: torch.tensor([[3], [3], [3]]) for kind in ('verb', 'noun')}
    two_actions = dict(one_action, verb=torch.tensor([[3], [3], [4]]))
    for classes, per_text in ((one_action, 2.0), (two_actions, 2 / 3)):
        samples = dict(
            video_idx=torch.arange(3),
            video_ids=list('abc'),
            text_ids=list('xyz'),
            text_videos=torch.arange(3)[:, None],
            video_classes=classes,
            text_classes=classes,
        )
        losses = model(inputs, samples, mode='loss')
        assert losses['relevant_per_text'].item() == pytest.approx(per_text)
    (gradient,) = torch.autograd.grad(losses['loss_triplet'], inputs['video'])
    assert torch.isfinite(gradient).all()


def test_a_dataset_without_classes_and_bad_thresholds(case):
    _, target = case
    with pytest.raises(
        ValueError, match='RelevanceSupervision reads target.known.relevance, but the'
    ):
        RelevanceSupervision()({}, {}, Target(target.positives))
    for bad in (0.0, 1.5):
        with pytest.raises(ValueError, match=r'negatives_below must lie in \(0, 1\]'):
            MODELS.build(dict(type='mmvtr.RelevanceSupervision', negatives_below=bad))
    for bad in (-0.1, 1.0):
        with pytest.raises(ValueError, match=r'quantile must lie in \[0, 1\)'):
            RelevanceSupervision(negatives_below=None, quantile=bad)
    for given in (dict(quantile=0.9), dict(negatives_below=None)):
        with pytest.raises(ValueError, match='one of negatives_below and quantile'):
            RelevanceSupervision(**given)
