"""ARL's objective from the shells: contrast (Eq. 8-10) plus dual triplet (Eq. 11-12)."""

import math

import pytest
import torch

from mmvtr.functional.uncertainty.ambiguity import apply_strategy
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.target import Target
from mmvtr.registry import MODELS

LAMBDA, MARGIN, MARGIN_A, TEMPERATURE = 0.04, 0.9, 0.4, 0.5


@pytest.fixture
def case():
    """s [T=5, V=3], positives (texts 0, 1 are siblings) and A, one entry a row at most; float64."""
    scores = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positives = torch.eye(3, dtype=torch.bool)[[0, 0, 1, 2, 2]]
    ambiguous = torch.zeros(5, 3, dtype=torch.bool)
    ambiguous[0, 1] = ambiguous[2, 0] = ambiguous[3, 1] = True
    return scores, positives, ambiguous


def arl(**ranking):
    """The paper's sums: both directions added, so twice each shell's mean of them."""
    contrast = dict(type='ContrastiveLoss', form='own_pair', loss_weight=2 * LAMBDA)
    triplet = dict(
        type='RankingLoss',
        margin=MARGIN,
        ambiguous_margin=MARGIN_A,
        average='anchors',
        loss_weight=2.0,
        **ranking,
    )
    return [MODELS.build(dict(x, type=f'mmvtr.{x["type"]}')) for x in (contrast, triplet)]


def value(losses, scores, target):
    return sum(loss({'scores': scores}, target, TEMPERATURE) for loss in losses).item()


def reference(scores, positives, ambiguous):
    """lambda L_nce + L_a + L_n, with the hardest of A and of N as q_a, V_a, q_n, V_n."""
    s, total, pairs = scores.tolist(), 0.0, positives.nonzero().tolist()
    for i, j in pairs:
        rows = [(s[i][v], bool(ambiguous[i, v])) for v in range(3) if not positives[i, v]]
        columns = [(s[t][j], bool(ambiguous[t, j])) for t in range(5) if not positives[t, j]]
        for others in (rows, columns):
            own = math.exp(s[i][j] / TEMPERATURE)
            shared = sum(math.exp(x / TEMPERATURE) for x, is_a in others if is_a)
            rest = sum(math.exp(x / TEMPERATURE) for x, _ in others)
            total -= LAMBDA * math.log((own + shared) / (own + rest))
            for kind, margin in ((True, MARGIN_A), (False, MARGIN)):
                chosen = [x for x, is_a in others if is_a == kind]
                if chosen:
                    total += max(0.0, margin + max(chosen) - s[i][j])
    return total / len(pairs)


def test_equals_the_papers_objective(case):
    scores, positives, ambiguous = case
    target = Target(positives, ambiguous=ambiguous)
    found = value(arl(negatives='hardest'), scores, target)
    assert found == pytest.approx(reference(*case), rel=1e-12)
    # Warm-up: nobody has looked for ambiguous pairs.
    none = torch.zeros_like(ambiguous)
    found = value(arl(negatives='hardest'), scores, Target(positives))
    assert found == pytest.approx(reference(scores, positives, none), rel=1e-12)


def test_margins_weights_and_strategies_of_the_target(case):
    scores, positives, ambiguous = case
    target = Target(positives, ambiguous=ambiguous)
    losses = arl(negatives='hardest')
    ignored = target._replace(**apply_strategy('ignore', positives, ambiguous))
    assert ignored.ambiguous is None
    entries = [tuple(entry) for entry in ambiguous.nonzero().tolist()]
    moved = scores.clone()
    for entry in entries:
        moved[entry] += 5
    assert value(losses, moved, ignored) == value(losses, scores, ignored)
    assert value(losses, moved, target) != value(losses, scores, target)
    wide = RankingLoss(negatives='hardest')({'scores': scores}, target._replace(
        margins=torch.full_like(scores, MARGIN)), 1.0)  # fmt: skip
    explicit = RankingLoss(negatives='hardest', margin=MARGIN, ambiguous_margin=0.1)
    assert wide.item() == explicit({'scores': scores}, target, 1.0).item()


def test_random_draws_repeat_at_a_step_and_change_with_it(case):
    scores, positives, ambiguous = case
    target = Target(positives, ambiguous=ambiguous)
    first, again = (arl(negatives='random')[1:] for _ in range(2))
    steps = [value(first, scores, target) for _ in range(6)]
    assert steps == [value(again, scores, target) for _ in range(6)]
    assert len(set(steps)) > 1


def test_the_pool_holds_from_its_share_of_the_training_on():
    scores, positives = torch.randn(4, 40), torch.eye(40, dtype=torch.bool)[:4]
    loss = RankingLoss(negatives='random', pool=1, pool_from=0.3, margin=9.0, direction='t2v')
    hardest = RankingLoss(negatives='hardest', margin=9.0, direction='t2v')
    expected = hardest({'scores': scores}, Target(positives), 1.0).item()
    assert loss({'scores': scores}, Target(positives), 1.0).item() == expected
    for progress, is_hardest in ((0.0, False), (0.29, False), (0.3, True), (1.0, True)):
        loss.progress = progress
        drawn = loss({'scores': scores}, Target(positives), 1.0).item()
        assert (drawn == expected) == is_hardest


def test_the_ambiguous_margin():
    assert RankingLoss(margin=0.3).ambiguous_margin == 0.15
    assert RankingLoss(margin=0.3, ambiguous_margin=0.0).ambiguous_margin == 0
    for bad in (-0.1, 0.4):
        with pytest.raises(
            ValueError, match='ambiguous_margin must lie between 0 and margin = 0.3'
        ):
            RankingLoss(margin=0.3, ambiguous_margin=bad)


def test_a_pooled_contrast_refuses_ambiguous_pairs(case):
    scores, positives, ambiguous = case
    with pytest.raises(ValueError, match="need form='own_pair'"):
        ContrastiveLoss()({'scores': scores}, Target(positives, ambiguous=ambiguous), 1.0)


def test_a_batch_where_every_pair_is_ambiguous(case):
    scores, positives, _ = case
    scores = scores.clone().requires_grad_()
    contrast, triplet = arl()
    target = Target(positives, ambiguous=~positives)
    (gradient,) = torch.autograd.grad(contrast({'scores': scores}, target, 0.05), scores)
    assert gradient.abs().max() < 1e-12
    alone = RankingLoss(margin=MARGIN_A, average='anchors', loss_weight=2.0)
    expected = alone({'scores': scores}, Target(positives), 1.0).item()
    assert triplet({'scores': scores}, target, 1.0).item() == pytest.approx(expected, rel=1e-12)
