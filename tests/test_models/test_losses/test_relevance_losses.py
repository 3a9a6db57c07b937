"""Relevance-aware losses against loops, in float64."""

import math

import pytest
import torch

from mmvtr.models.losses.ranking import (
    AdaptiveMaxMarginLoss,
    EgoNCELoss,
    RankingLoss,
    RelevantRankingLoss,
)
from mmvtr.models.supervisions.weights import RelevanceSupervision
from mmvtr.models.target import Annotation, Target
from mmvtr.registry import MODELS

# Columns 0 and 1 are one video, brought twice; texts 2 and 3 are captions of one video.
VIDEO_OF_COLUMN = [0, 0, 1, 2, 3, 4]
VIDEO_OF_TEXT = [0, 0, 1, 1, 2, 3, 4]
VERBS = [{0}, {0}, {0}, {1}, {9}]  # of each video; video 4 shares nothing with any other
NOUNS = [{0, 1}, {1, 2}, {5}, {1}, {7}]
# Text 3 is a loose caption of its own video, text 1 of the doubled one.
TEXT_CLASSES = {1: ({0}, {1}), 3: ({2}, {1})}


def iou(a, b):
    return len(a & b) / len(a | b)


def annotated():
    return torch.tensor([[t == v for v in VIDEO_OF_COLUMN] for t in VIDEO_OF_TEXT])


def graded():
    """Relevance float64 [7, 6] and overlap bool [7, 6]."""
    relevance = torch.zeros(7, 6, dtype=torch.float64)
    overlap = torch.zeros(7, 6, dtype=torch.bool)
    for t, own in enumerate(VIDEO_OF_TEXT):
        verbs, nouns = TEXT_CLASSES.get(t, (VERBS[own], NOUNS[own]))
        for c, v in enumerate(VIDEO_OF_COLUMN):
            relevance[t, c] = (iou(verbs, VERBS[v]) + iou(nouns, NOUNS[v])) / 2
            overlap[t, c] = bool(verbs & VERBS[v]) and bool(nouns & NOUNS[v])
    return relevance, overlap


@pytest.fixture
def case():
    """Scores in (-1, 1), some above .8; target with graded relevance."""
    generator = torch.Generator().manual_seed(3)
    scores = 2 * torch.rand(7, 6, generator=generator, dtype=torch.float64) - 1
    scores[6, 4] = 0.95  # text 6 has no relevant positive, but a negative near 1
    relevance, overlap = graded()
    return scores, Target(annotated(), known=Annotation(relevance=relevance, overlap=overlap))


def gradient(loss, scores, target, temperature=0.05):
    scores = scores.clone().requires_grad_()
    value = loss({'scores': scores}, target, temperature)
    return value.item(), torch.autograd.grad(value, scores)[0]


def check_gradient(loss, scores, target, temperature=0.5):
    scores = scores.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s: loss({'scores': s}, target, temperature), (scores,), eps=1e-7
    )


def test_the_case_is_a_hard_one(case):
    _, target = case
    assert target.known.relevance.unique().numel() > 5
    assert (
        target.known.relevance[3, 2] < 0.5 and target.positives[3, 2]
    )  # annotated, hardly relevant
    assert (target.known.overlap & ~target.positives).any() and (
        target.known.relevance[6, :5] == 0
    ).all()


# -- RANP --------------------------------------------------------------------------------------


def relevant_rows(scores, target, weights, tau, margin, no_positive, negatives='hardest'):
    """Sum of [margin + negative - hardest relevant positive]+ over all rows, or all entries."""
    total, entries = 0.0, int((~target[1]).sum())
    for s, r, p, w in zip(*(x.tolist() for x in (scores, *target, weights))):
        chosen = [x for x, rel, own in zip(s, r, p) if rel >= tau and not own]
        others = [
            (x, wx) for x, rel, own, wx in zip(s, r, p, w) if rel < tau and not own and wx > 0
        ]
        if not others or (not chosen and no_positive == 'skip'):
            continue
        for negative, weight in others if negatives == 'all' else [max(others)]:
            total += weight * max(0.0, margin + negative - min(chosen, default=1.0))
    return total / (entries if negatives == 'all' else len(scores))


@pytest.mark.parametrize('no_positive', ['skip', 'one'])
@pytest.mark.parametrize('tau', [0.1, 0.2, 0.4, 0.75, 1.0])
@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('negatives', ['hardest', 'all'])
def test_ranp_equals_loops(case, tau, no_positive, weighted, negatives):
    scores, target = case
    weights = torch.rand(7, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = (weights * (weights > 0.2)) if weighted else torch.ones_like(scores)
    rows = relevant_rows(
        scores,
        (target.known.relevance, target.positives),
        weights,
        tau,
        0.3,
        no_positive,
        negatives,
    )
    columns = relevant_rows(
        scores.t(),
        (target.known.relevance.t(), target.positives.t()),
        weights.t(),
        tau,
        0.3,
        no_positive,
        negatives,
    )
    loss = RelevantRankingLoss(
        threshold=tau, margin=0.3, no_positive=no_positive, negatives=negatives
    )
    given = target._replace(weights=weights) if weighted else target
    value, _ = gradient(loss, scores, given)
    assert value == pytest.approx((rows + columns) / 2, rel=1e-12) and (value > 0 or tau == 1)
    check_gradient(loss, scores, given)


def test_an_anchor_without_a_relevant_positive():
    """No term by default; with the official 1 its negatives above 1 - margin are pushed."""
    scores = torch.tensor([[0.5, 0.9], [0.1, 0.5]])
    target = Target(torch.eye(2, dtype=torch.bool), known=Annotation(relevance=torch.eye(2)))
    value, found = gradient(RelevantRankingLoss(threshold=0.2, margin=0.2), scores, target)
    assert value == 0 and found.abs().sum() == 0
    loss = RelevantRankingLoss(threshold=0.2, margin=0.2, no_positive='one')
    value, found = gradient(loss, scores, target)
    assert value == pytest.approx((0.1 / 2 + 0.1 / 2) / 2, rel=1e-6)
    assert found[0, 1] > 0 and (found != 0).sum() == 1


def test_an_annotated_pair_below_the_threshold_is_no_negative(case):
    scores, target = case
    scores = scores.clone()
    scores[3, 2] = 0.99  # relevance .25 with its own video
    _, found = gradient(RelevantRankingLoss(threshold=0.5), scores, target)
    assert target.known.relevance[3, 2] < 0.5 and found[3, 2] == 0


@pytest.mark.parametrize('negatives', ['hardest', 'all'])
def test_the_official_sum_on_a_square_batch(negatives):
    """RAN's triplet plus RANP's, directions added; relevant pairs cost 0.

    Over B with the hardest negatives, over B(B - 1) with all ("NoHN").
    """
    generator = torch.Generator().manual_seed(5)
    n, tau, margin, margin_pos = 6, 0.4, 0.2, 0.25
    scores = torch.rand(n, n, generator=generator, dtype=torch.float64)
    relevance = torch.randint(0, 5, (n, n), generator=generator).double() / 4
    relevance = torch.maximum(relevance, relevance.t()).fill_diagonal_(1.0)
    relevance[2] = relevance[:, 2] = 0.0  # nothing relevant
    relevance[4] = relevance[:, 4] = 1.0  # nothing irrelevant
    relevance.fill_diagonal_(1.0)
    choose, over = (sum, n * (n - 1)) if negatives == 'all' else (max, n)
    expected = 0.0
    for s, r in ((scores.tolist(), relevance.tolist()), (scores.t().tolist(), relevance.tolist())):
        for i in range(n):
            positive = min([s[i][j] for j in range(n) if j != i and r[i][j] >= tau] + [1.0])
            clear = [s[i][j] for j in range(n) if r[i][j] < tau]
            expected += choose([0.0] + [max(0.0, margin + x - s[i][i]) for x in clear]) / over
            expected += choose([0.0] + [max(0.0, margin_pos + x - positive) for x in clear]) / over
    target = Target(torch.eye(n, dtype=torch.bool), known=Annotation(relevance=relevance))
    target, _ = RelevanceSupervision(negatives_below=tau)({}, {}, target)
    average = 'entries' if negatives == 'all' else 'anchors'
    one = RankingLoss(margin=margin, negatives=negatives, average=average, loss_weight=2.0)
    for threshold in (tau, None):  # None: as the supervision has it
        two = RelevantRankingLoss(
            threshold=threshold,
            margin=margin_pos,
            negatives=negatives,
            no_positive='one',
            loss_weight=2.0,
        )
        value = sum(loss({'scores': scores}, target, 1.0) for loss in (one, two))
        assert value.item() == pytest.approx(expected, rel=1e-12)


def test_few_relevant_positives_make_a_small_loss():
    scores = torch.eye(4)
    relevance = torch.eye(4)
    relevance[0, 2] = 0.5  # text 0 and video 2 are the only anchors
    target = Target(torch.eye(4, dtype=torch.bool), known=Annotation(relevance=relevance))
    value, _ = gradient(RelevantRankingLoss(threshold=0.4, margin=0.2), scores, target)
    assert value == pytest.approx(0.2 / 4)


# -- EgoNCE ------------------------------------------------------------------------------------


def ego_rows(scores, positives, weights, temperature):
    total = 0.0
    for s, p, w in zip(scores.tolist(), positives.tolist(), weights.tolist()):
        e = [math.exp(x / temperature) for x in s]
        own = sum(x for x, is_own in zip(e, p) if is_own)
        rest = sum(x * wx for x, is_own, wx in zip(e, p, w) if not is_own)
        total -= math.log(own / (own + rest))
    return total / len(scores)


@pytest.mark.parametrize('weighted', [False, True])
def test_egonce_equals_loops(case, weighted):
    scores, target = case
    weights = torch.ones_like(scores)
    if weighted:
        weights = torch.rand(7, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        target = target._replace(weights=weights)
    positives = target.positives | target.known.overlap
    assert positives.sum() > target.positives.sum()
    t2v = ego_rows(scores, positives, weights, 0.05)
    v2t = ego_rows(scores.t(), positives.t(), weights.t(), 0.05)
    value, _ = gradient(EgoNCELoss(), scores, target)
    assert value == pytest.approx((t2v + v2t) / 2, rel=1e-12)
    assert EgoNCELoss(direction='v2t')({'scores': scores}, target, 0.05).item() == pytest.approx(
        v2t, rel=1e-12
    )
    check_gradient(EgoNCELoss(), scores, target)
    beside = target._replace(columns=torch.ones(1))  # of another loss
    assert EgoNCELoss().seen(beside).columns is None


def test_egonce_is_the_official_softmax_form_on_a_square_batch():
    """-mean log of the softmax mass of the positives, directions added."""
    scores = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    overlap = torch.eye(5, dtype=torch.bool)
    overlap[0, 3] = overlap[3, 0] = True
    target = Target(torch.eye(5, dtype=torch.bool), known=Annotation(overlap=overlap))
    expected = 0.0
    for s in (scores, scores.t()):
        mass = ((s / 0.05).softmax(1) * overlap).sum(1)
        expected -= mass.log().mean().item()
    value = EgoNCELoss(loss_weight=2.0)({'scores': scores}, target, 0.05)
    assert value.item() == pytest.approx(expected, rel=1e-9)


def test_a_shared_verb_alone_stays_a_negative(case):
    scores, target = case
    assert target.known.relevance[0, 3] > 0 and not target.known.overlap[0, 3]
    _, found = gradient(EgoNCELoss(direction='t2v'), scores / 10, target)
    assert found[0, 3] > 0
    assert target.known.overlap[0, 2] and found[0, 2] < 0  # verb and noun: pulled


# -- adaptive max-margin -----------------------------------------------------------------------


def margin_rows(scores, target, weights, margin, margin_of):
    terms = []
    for s, r, p, w in zip(*(x.tolist() for x in (scores, *target, weights))):
        for i in range(len(s)):
            for n in range(len(s)):
                if p[i] and not p[n] and w[n] > 0:
                    scale = r[i] if margin_of == 'positive' else 1 - r[n]
                    terms.append(w[n] * max(0.0, margin * scale + s[n] - s[i]))
    return sum(terms) / len(terms)


@pytest.mark.parametrize('margin_of', ['positive', 'negative'])
@pytest.mark.parametrize('weighted', [False, True])
def test_adaptive_max_margin_equals_loops(case, margin_of, weighted):
    scores, target = case
    weights = torch.ones_like(scores)
    if weighted:
        target, _ = RelevanceSupervision(negatives_below=0.5)({}, {}, target)
        weights = target.weights
        assert (weights == 0).any()
    sides = (scores, (target.known.relevance, target.positives), weights)
    t2v = margin_rows(*sides, 0.4, margin_of)
    v2t = margin_rows(
        scores.t(), (target.known.relevance.t(), target.positives.t()), weights.t(), 0.4, margin_of
    )
    loss = AdaptiveMaxMarginLoss(margin_of=margin_of)
    value, _ = gradient(loss, scores, target)
    assert value == pytest.approx((t2v + v2t) / 2, rel=1e-12)
    check_gradient(loss, scores, target)


def test_adaptive_max_margin_is_the_official_mean_on_a_square_batch():
    """Rows and columns in one mean, the diagonal left out, one weight a pair."""
    n = 5
    generator = torch.Generator().manual_seed(8)
    scores = torch.rand(n, n, generator=generator, dtype=torch.float64)
    relevance = torch.rand(n, n, generator=generator, dtype=torch.float64)
    own = relevance.diag().tolist()
    s = scores.tolist()
    terms = [
        max(0.0, 0.4 * own[i] - (s[i][i] - x))
        for i in range(n)
        for j in range(n)
        if i != j
        for x in (s[i][j], s[j][i])
    ]
    target = Target(torch.eye(n, dtype=torch.bool), known=Annotation(relevance=relevance))
    value = AdaptiveMaxMarginLoss(margin=0.4)({'scores': scores}, target, 1.0)
    assert value.item() == pytest.approx(sum(terms) / len(terms), rel=1e-12)


def test_pairs_of_relevance_1_make_it_the_plain_loss(case):
    scores, target = case
    target = target._replace(known=Annotation(relevance=target.positives.double()))
    plain = RankingLoss(margin=0.4)({'scores': scores}, target, 1.0).item()
    for margin_of in ('positive', 'negative'):
        value, _ = gradient(AdaptiveMaxMarginLoss(margin_of=margin_of), scores, target)
        assert value == pytest.approx(plain, rel=1e-12)


# -- all of them -------------------------------------------------------------------------------

ALL = [
    RelevantRankingLoss(threshold=0.2),
    RelevantRankingLoss(threshold=0.2, no_positive='one'),
    RelevantRankingLoss(threshold=0.2, negatives='all'),
    RelevantRankingLoss(threshold=0.2, negatives='all', no_positive='one'),
    EgoNCELoss(),
    AdaptiveMaxMarginLoss(),
    AdaptiveMaxMarginLoss(margin_of='negative'),
]


@pytest.mark.parametrize('loss', ALL)
def test_no_negatives_left_and_empty_batches(case, loss):
    """Everything relevant (RAN's weights of 0), everything annotated, or nothing there: 0."""
    scores, target = case
    full = Target(
        target.positives,
        known=Annotation(torch.ones_like(scores), torch.ones_like(target.positives)),
    )
    full, _ = RelevanceSupervision(negatives_below=0.75)({}, {}, full)
    everything = full._replace(positives=torch.ones_like(target.positives))
    cases = [(scores, full), (scores, everything)]
    for t, v in ((0, 4), (4, 0), (0, 0)):
        empty = torch.zeros(t, v, dtype=torch.float64)
        cases.append(
            (empty, Target(empty.bool(), known=Annotation(relevance=empty, overlap=empty.bool())))
        )
    for s, t in cases:
        value, found = gradient(loss, s, t)
        assert value == pytest.approx(0, abs=1e-15)
        assert found.shape == s.shape and found.abs().sum() < 1e-12


@pytest.mark.parametrize('loss', ALL)
def test_half_precision_and_float32_relevance(case, loss):
    scores, target = case
    half = scores.bfloat16()
    target = target._replace(known=target.known._replace(relevance=target.known.relevance.float()))
    value = loss({'scores': half}, target, 0.05)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(
        loss({'scores': half.double()}, target, 0.05).item(), rel=1e-4
    )


@pytest.mark.parametrize('loss', ALL)
def test_a_dataset_without_classes(case, loss):
    scores, target = case
    with pytest.raises(ValueError, match=f'{type(loss).__name__} reads target.* no classes'):
        loss({'scores': scores}, Target(target.positives), 0.05)


def test_a_threshold_met_exactly():
    """A fifth is relevant at .2 though float32 knows neither."""
    relevance = torch.tensor([[1.0, 0.0, 0.0], [(0 + 2 / 5) / 2, 1.0, 0.0], [0.0, 0.0, 1.0]])
    target = Target(torch.eye(3, dtype=torch.bool), known=Annotation(relevance=relevance))
    _, found = gradient(RelevantRankingLoss(threshold=0.2, margin=1.0), torch.zeros(3, 3), target)
    assert found[1, 0] < 0 and found[1, 2] > 0


def test_registered_and_bad_arguments():
    assert MODELS.build(dict(type='mmvtr.RelevantRankingLoss')).threshold == 0.2
    assert isinstance(MODELS.build(dict(type='mmvtr.EgoNCELoss')), EgoNCELoss)
    assert MODELS.build(dict(type='mmvtr.AdaptiveMaxMarginLoss')).margin == 0.4
    for bad in (0.0, -0.2, 1.01):
        with pytest.raises(ValueError, match=r'threshold must lie in \(0, 1\]'):
            RelevantRankingLoss(threshold=bad)
    with pytest.raises(ValueError, match="no_positive must be one of .*'skip', 'one'"):
        RelevantRankingLoss(no_positive='zero')
    with pytest.raises(ValueError, match="negatives must be one of .*, not 'random'"):
        RelevantRankingLoss(negatives='random')
    none_found = Target(torch.eye(2).bool(), known=Annotation(relevance=torch.eye(2)))
    with pytest.raises(ValueError, match='reads the relevant beside .* a RelevanceSupervision'):
        RelevantRankingLoss(threshold=None)({'scores': torch.eye(2)}, none_found, 1.0)
    with pytest.raises(ValueError, match="margin_of must be one of .*'positive', 'negative'"):
        AdaptiveMaxMarginLoss(margin_of='both')
