import math
import statistics

import pytest
import torch

from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.losses.ranking import margin_ranking
from mmvtr.functional.uncertainty.ambiguity import (
    Moments,
    ambiguous_set,
    apply_strategy,
    frame_uncertainty,
    own_positive,
    pair_uncertainty,
)

T, V, F = 6, 4, 3


@pytest.fixture
def case():
    """s, u [T, V] and positives: texts 0 and 1 are siblings, text 5 has no video; float64."""
    generator = torch.Generator().manual_seed(0)
    scores, uncertainty = torch.rand(2, T, V, generator=generator, dtype=torch.float64)
    positives = torch.zeros(T, V, dtype=torch.bool)
    for t, v in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (4, 1)]:
        positives[t, v] = True
    return scores, uncertainty, positives


def test_pair_uncertainty_is_equation_5():
    generator = torch.Generator().manual_seed(0)
    texts, frames = torch.rand(T, generator=generator), torch.rand(V, F, generator=generator)
    best = torch.randint(F, (T, V), generator=generator)
    u = pair_uncertainty(texts, frames, best)
    for i in range(T):
        for j in range(V):
            expected = (texts[i].item() + frames[j, best[i, j]].item()) / 2
            assert u[i, j].item() == pytest.approx(expected, abs=1e-7)
    own = torch.tensor([0, 0, 1, 2, 3, 1])
    u = frame_uncertainty(texts, frames[own])
    for i in range(T):
        for k in range(F):
            expected = (texts[i].item() + frames[own[i], k].item()) / 2
            assert u[i, k].item() == pytest.approx(expected, abs=1e-7)


def test_sets_are_equations_6_and_7(case):
    scores, uncertainty, positives = case
    tau_s, tau_u = 0.4, 0.3
    found = ambiguous_set(scores, uncertainty, positives, tau_s=tau_s, tau_u=tau_u)
    by_text = {
        i: {
            a
            for a in range(V)
            if scores[i, a] > tau_s and uncertainty[i, a] > tau_u and not positives[i, a]
        }
        for i in range(T)
    }
    by_video = {
        j: {
            a
            for a in range(T)
            if scores[a, j] > tau_s and uncertainty[a, j] > tau_u and not positives[a, j]
        }
        for j in range(V)
    }
    assert sum(map(len, by_text.values())) > 3
    assert {i: set(row.nonzero().flatten().tolist()) for i, row in enumerate(found)} == by_text
    assert {j: set(c.nonzero().flatten().tolist()) for j, c in enumerate(found.t())} == by_video


def test_thresholds_are_strict_and_broadcast(case):
    scores, uncertainty, positives = case
    options = dict(tau_s=scores[2, 0].item(), tau_u=0.0)
    assert not ambiguous_set(scores, uncertainty, positives, **options)[2, 0]
    rows = scores.amax(1, keepdim=True) - 1e-9
    found = ambiguous_set(scores, uncertainty, positives, tau_s=rows, tau_u=uncertainty - 1)
    assert torch.equal(found, (scores == scores.amax(1, keepdim=True)) & ~positives)


def test_own_pairs_siblings_and_padding_never_get_in(case):
    scores, uncertainty, positives = case
    mask = torch.ones_like(positives)
    mask[:, 3] = False
    options = dict(tau_s=-math.inf, tau_u=-math.inf)
    assert torch.equal(ambiguous_set(scores, uncertainty, positives, **options), ~positives)
    found = ambiguous_set(scores, uncertainty, positives, mask=mask, **options)
    assert torch.equal(found, ~positives & mask)


def test_cap_keeps_the_best_scored_and_the_leftmost_of_ties():
    scores = torch.tensor([[0.9, 0.5, 0.7, 0.7, 0.7], [0.1, 0.2, 0.3, 0.4, 0.5]])
    positives = torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]).bool()
    high = torch.ones_like(scores)
    found = ambiguous_set(scores, high, positives, tau_s=0.25, tau_u=0.5, cap=2)
    assert found.int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 1, 1, 0]]
    # The uncertainty bars an entry before the cap counts it.
    high[0, 2] = 0
    found = ambiguous_set(scores, high, positives, tau_s=0.25, tau_u=0.5, cap=2)
    assert found[0].int().tolist() == [0, 0, 0, 1, 1]


def test_moments_are_mean_and_standard_deviation():
    values = torch.rand(50, generator=torch.Generator().manual_seed(0))
    whole = Moments()
    whole.add(values)
    parts = [Moments(), Moments()]
    parts[0].add(values[:10].view(2, 5)), parts[0].add(values[:0]), parts[1].add(values[10:])
    parts[0].totals += parts[1].totals
    numbers = values.tolist()
    for spread in (0.0, 1.0, -0.5):
        expected = statistics.fmean(numbers) + spread * statistics.pstdev(numbers)
        assert whole.threshold(spread) == pytest.approx(expected, abs=1e-12)
        assert parts[0].threshold(spread) == pytest.approx(expected, abs=1e-12)
    same = Moments()
    same.add(torch.full((3,), 0.1))
    assert same.threshold(5.0) == pytest.approx(0.1, abs=1e-6)  # no NaN from rounding
    with pytest.raises(ValueError, match='no pairs'):
        Moments().threshold()


def test_own_positive_is_the_best_one_less_slack(case):
    scores, _, positives = case
    tau = own_positive(scores, positives, slack=0.1)
    assert tau.shape == (T, 1) and not tau.requires_grad
    assert tau[0].item() == pytest.approx(scores[0, 0].item() - 0.1)
    assert tau[4].item() == pytest.approx(max(scores[4, 3], scores[4, 1]).item() - 0.1)
    assert tau[5].item() == math.inf
    found = ambiguous_set(scores, scores, positives, tau_s=tau + 0.1, tau_u=-1.0)
    for i in range(T):
        own = [scores[i, j].item() for j in range(V) if positives[i, j]]
        above = [bool(own) and scores[i, j].item() > max(own) for j in range(V)]
        assert found[i].tolist() == above
    assert own_positive(scores[:, :0], positives[:, :0]).tolist() == [[math.inf]] * T


def test_strategies_of_table_6(case):
    scores, uncertainty, positives = case
    ambiguous = ambiguous_set(scores, uncertainty, positives, tau_s=0.4, tau_u=0.3)
    weights = torch.rand(T, V, dtype=torch.float64) + 0.1

    ours = apply_strategy('ours', positives, ambiguous, weights)
    assert ours['positives'] is positives and ours['weights'] is weights
    assert ours['ambiguous'] is ambiguous

    ignore = apply_strategy('ignore', positives, ambiguous)
    assert torch.equal(ignore['weights'], (~ambiguous).float()) and ignore['ambiguous'] is None
    ignore = apply_strategy('ignore', positives, ambiguous, weights)
    assert torch.equal(ignore['weights'], weights.masked_fill(ambiguous, 0))

    positive = apply_strategy('positive', positives, ambiguous, weights)
    assert torch.equal(positive['positives'], positives | ambiguous)
    assert positive['weights'] is weights and positive['ambiguous'] is None


def test_ignored_pairs_get_no_gradient_and_positive_ones_are_pulled(case):
    scores, uncertainty, positives = case
    scores = scores.clone().requires_grad_()
    ambiguous = ambiguous_set(scores, uncertainty, positives, tau_s=0.4, tau_u=0.3)

    def gradient(strategy, loss, **options):
        slots = apply_strategy(strategy, positives, ambiguous)
        return torch.autograd.grad(loss(scores, **slots, **options), scores)[0]

    for loss, options in ((contrastive, dict(form='own_pair')), (margin_ranking, dict(margin=9.0))):
        for drawn in [options] + [dict(options, negatives='random')] * (loss is margin_ranking):
            assert not gradient('ignore', loss, **drawn)[ambiguous].any()
    pulled = gradient('positive', contrastive, form='outer_sum')
    assert (pulled[ambiguous] < 0).all()


def test_bad_input(case):
    scores, uncertainty, positives = case
    with pytest.raises(ValueError, match='uncertainty .* differ'):
        ambiguous_set(scores, uncertainty[:3], positives, tau_s=0, tau_u=0)
    with pytest.raises(ValueError, match='k must be at least 1'):
        ambiguous_set(scores, uncertainty, positives, tau_s=0, tau_u=0, cap=0)
    with pytest.raises(ValueError, match='strategy must be one of'):
        apply_strategy('drop', positives, positives)
