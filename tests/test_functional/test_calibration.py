"""P(match): isotonic and Platt against scikit-learn and scipy, temperature, thresholds, bounds."""

import json
import math
import time

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from sklearn.isotonic import IsotonicRegression

from mmvtr.functional import (
    Calibration,
    between_knots,
    fit_calibration,
    fit_to_pairs,
    isotonic,
    reliability,
)
from mmvtr.functional.uncertainty import calibration_fits


def judged(count=4000, seed=0):
    """Scores and matches of a known sigmoid: slope 12, offset -4."""
    random = torch.Generator().manual_seed(seed)
    scores = torch.rand(count, generator=random, dtype=torch.float64) * 0.8 - 0.1
    truth = (12 * scores - 4).sigmoid()
    return scores, torch.rand(count, generator=random) < truth, truth


@pytest.mark.parametrize('seed', range(6))
def test_isotonic_is_scikit_learns(seed):
    random = np.random.default_rng(seed)
    x = random.integers(0, 40, 300) / 7 if seed % 2 else random.normal(size=300)
    y, weight = random.normal(size=300) + x * (seed - 2), random.integers(1, 5, 300)
    theirs = IsotonicRegression(out_of_bounds='clip').fit(x, y, weight)
    knots = isotonic(*(torch.tensor(one, dtype=torch.float64) for one in (x, y, weight)))
    asked = np.linspace(x.min() - 1, x.max() + 1, 997)
    ours = between_knots(torch.tensor(asked), *knots)
    np.testing.assert_allclose(ours.numpy(), theirs.predict(asked), atol=1e-9)
    assert (knots[1].diff() >= 0).all() and (knots[0].diff() > 0).all()


def test_isotonic_pools_a_long_staircase_in_linear_time():
    """The last entry pools all others, one after the other: 50,000 rounds of runs."""
    x = torch.arange(50_000, dtype=torch.float64)
    y = x.clone()
    y[-1] = -2e9
    start = time.process_time()
    knots, values = isotonic(x, y)
    assert time.process_time() - start < 5
    assert knots.tolist() == [0, 49_999]
    torch.testing.assert_close(values, y.mean().expand(2))


def test_isotonic_leaves_out_what_weighs_nothing():
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 9.0, 1.0])
    assert isotonic(x, y, torch.tensor([1.0, 0.0, 1.0]))[1].tolist() == [0, 1]
    with pytest.raises(ValueError, match='at least one entry'):
        isotonic(x, y, torch.zeros(3))


@pytest.mark.parametrize('count', [30, 4000])
def test_platt_is_the_least_loss(count):
    scores, matches, _ = judged(count)
    x, y = scores.numpy(), matches.double().numpy()
    target = np.where(y > 0, (y.sum() + 1) / (y.sum() + 2), 1 / (len(y) - y.sum() + 2))

    def loss(beta):
        logit = beta[0] * x + beta[1]
        return (np.logaddexp(0, logit) - target * logit).mean()

    theirs = minimize(loss, (1.0, 0.0), tol=1e-12).x
    ours = fit_calibration(scores, matches, draws=0).fitted.numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)


def test_platt_of_separable_pairs_is_finite():
    fit = fit_calibration(torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0, 0, 1, 1]), draws=0)
    assert fit.fitted.isfinite().all() and fit.probabilities(torch.tensor(0.4)) < 1


@pytest.mark.nightly
@pytest.mark.parametrize('method', ['platt', 'isotonic'])
def test_known_probabilities_come_back_and_bounds_hold_them(method):
    inside = []
    for seed in range(5):
        scores, matches, _ = judged(seed=seed)
        fit = fit_calibration(scores, matches, method=method)
        asked = torch.linspace(0, 0.6, 13, dtype=torch.float64)
        truth = (12 * asked - 4).sigmoid()
        assert (fit.probabilities(asked) - truth).abs().max() < 0.15
        lower, upper = fit.interval(asked)
        inside.append(((lower <= truth) & (truth <= upper)).double().mean().item())
        assert (upper - lower).max() < 0.35
    assert 0.7 < np.mean(inside) <= 1


@pytest.mark.nightly
def test_bounds_draw_queries():
    """Ten copies of a pair are one piece of evidence, not ten."""
    scores, matches, _ = judged(200)
    ten, query = (x.repeat_interleave(10) for x in (scores, torch.arange(200)))
    widths = []
    for queries in (query, None):
        fit = fit_calibration(ten, matches.repeat_interleave(10), queries=queries)
        lower, upper = fit.interval(torch.tensor([0.33]))
        widths.append((upper - lower).item())
    assert widths[0] > 2 * widths[1]


def test_grades_are_shares():
    scores, _, truth = judged()
    fit = fit_calibration(scores, truth, method='isotonic', draws=0)
    torch.testing.assert_close(fit.probabilities(scores), truth)


def matrix(count=200, temperature=0.08):
    """Scores of which one item a row is drawn by a softmax of a known temperature."""
    random = torch.Generator().manual_seed(1)
    scores = torch.randn(count, count, generator=random, dtype=torch.float64) * 0.2
    drawn = (scores / temperature).softmax(1).multinomial(1, generator=random)
    positives = torch.zeros(count, count, dtype=torch.bool).scatter(1, drawn, True)
    return scores, positives


def test_temperature_is_the_least_loss():
    scores, positives = matrix()

    def loss(log):
        return -(scores / math.exp(log)).log_softmax(1)[positives].mean().item()

    theirs = math.exp(minimize_scalar(loss, bounds=(-6, 1), method='bounded').x)
    fit = fit_to_pairs(scores, positives, method='temperature')
    assert fit.temperature == pytest.approx(theirs, rel=2e-3)
    assert fit.lower.item() < 0.08 < fit.upper.item() and fit.candidates == 200
    p = fit.probabilities(scores)
    torch.testing.assert_close(p.sum(1), torch.ones(200, dtype=torch.float64))
    assert reliability(p.flatten(), positives.flatten()).error < 0.002


def test_pairs_know_the_size_of_the_gallery():
    scores, positives = matrix()
    fit = fit_to_pairs(scores, positives, draws=2)
    here, tenfold = (fit.probabilities(scores, candidates=n) for n in (200, 1991))
    torch.testing.assert_close(here / (1 - here), 10 * tenfold / (1 - tenfold))
    assert here.sum(1).mean().item() == pytest.approx(1, abs=0.1)
    square = scores + torch.eye(200)
    same = fit_to_pairs(square, torch.eye(200).bool(), draws=0)
    assert torch.equal(fit_to_pairs(square, draws=0).fitted, same.fitted)


@pytest.mark.parametrize('method', ['platt', 'isotonic'])
def test_threshold(method):
    scores, matches, _ = judged(20000)
    fit = fit_calibration(scores, matches, method=method, draws=0)
    fresh, hit, truth = judged(20000, seed=7)
    for wanted in (0.6, 0.8, 0.9):
        kept = fit.accepts(fresh, precision=wanted)
        assert hit[kept].double().mean().item() == pytest.approx(wanted, abs=0.02)
        least = fit.threshold(wanted, fresh)
        assert truth[fresh >= least].mean().item() == pytest.approx(wanted, abs=0.02)
        low = fresh < least - 0.02
        assert truth[low | (fresh >= least)].mean() < wanted, 'no lower one has it'
    few, yes = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0.0, 0.5, 0.5, 0.6])
    none = fit_calibration(few, yes, method=method, draws=0)
    assert none.threshold(0.9) > 0.4 and not none.accepts(few, precision=0.9).any()
    if method == 'platt':  # where the line itself has it
        beyond = torch.tensor([none.threshold(0.9)])
        assert none.probabilities(beyond).item() == pytest.approx(0.9)
    else:
        assert none.threshold(0.9) == math.inf


def test_accepts_in_a_gallery_of_another_size():
    fit = fit_to_pairs(planted(400, 400, 0)[0], draws=0)
    scores, matches = planted(400, 4000, 1)
    shown = fit.accepts(scores, precision=0.8, candidates=4000)
    assert torch.equal(shown, scores.double() >= fit.threshold(0.8, candidates=4000))
    assert matches[shown].double().mean().item() == pytest.approx(0.8, abs=0.12)
    assert matches[fit.accepts(scores, precision=0.8)].double().mean() < 0.6, 'of a smaller one'


@pytest.mark.parametrize('method', ['platt', 'isotonic'])
def test_bounds_of_many_pairs_are_those_of_all(method, monkeypatch):
    """The bootstrap reads bins; with as many bins as scores it reads the pairs."""
    scores, matches = planted(300, 300, 0)
    found = fit_to_pairs(scores, matches, method=method, draws=40)
    monkeypatch.setattr(calibration_fits, 'WHOLE', 10**9)
    whole = fit_to_pairs(scores, matches, method=method, draws=40)
    assert torch.equal(found.fitted, whole.fitted)
    width = (whole.upper - whole.lower).max()
    for one, other in ((found.lower, whole.lower), (found.upper, whole.upper)):
        assert (one - other).abs().max() < 0.15 * width


@pytest.mark.nightly
def test_the_bootstrap_of_a_large_bank_is_quick():
    scores, matches = planted(1000, 1000, 0)
    start = time.process_time()
    fit_to_pairs(scores, matches, draws=0)
    once = time.process_time()
    fit_to_pairs(scores, matches, draws=40)
    assert time.process_time() - once < 6 * (once - start), 'not 40 fits'


def test_reliability_by_hand():
    found = reliability(torch.tensor([0.05, 0.05, 0.95, 1.0]), torch.tensor([0, 1, 1, 1]))
    assert found.pairs.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert found.error == pytest.approx(0.5 * 0.45 + 0.5 * 0.025)


def test_noise_is_what_a_true_calibration_shows():
    random = torch.Generator().manual_seed(0)
    p = torch.rand(2000, generator=random, dtype=torch.float64)
    found = [reliability(p, torch.rand(2000, generator=random) < p) for _ in range(50)]
    assert np.mean([x.error for x in found]) == pytest.approx(found[0].noise, rel=0.1)


@pytest.mark.parametrize('method', ['platt', 'isotonic', 'temperature'])
def test_saved_and_read(method):
    scores, positives = matrix(40)
    fit = fit_to_pairs(scores, positives, method=method, draws=5, debiased=True)
    read = Calibration.from_dict(json.loads(json.dumps(fit.to_dict())))
    assert torch.equal(read.probabilities(scores), fit.probabilities(scores))
    assert (read.method, read.candidates, read.debiased) == (method, 40, True)


ONE, TWO = torch.tensor([0.5]), torch.tensor([0.1, 0.5])
YES = torch.tensor([True, True])
BAD = [
    (lambda: fit_calibration(TWO, YES), 'both classes'),
    (lambda: fit_calibration(TWO, ~YES), 'both classes'),
    (lambda: fit_calibration(TWO, ONE), 'must be'),
    (lambda: fit_calibration(TWO[:0], TWO[:0]), 'at least one'),
    (lambda: fit_calibration(TWO, torch.tensor([0.0, 2.0])), r'shares in \[0, 1\]'),
    (lambda: fit_calibration(TWO * torch.nan, torch.tensor([0, 1])), 'finite'),
    (lambda: fit_calibration(TWO, torch.tensor([0, 1]), method='beta'), 'method must be'),
    (lambda: fit_calibration(TWO, torch.tensor([0, 1]), queries=ONE), 'one for each pair'),
    (lambda: fit_to_pairs(torch.ones(2, 3)), 'not square'),
    (lambda: fit_to_pairs(torch.ones(2, 2), torch.ones(2, 3)), 'differ'),
    (lambda: fit_to_pairs(torch.ones(2, 2), method='temperature'), 'one value'),
    (lambda: fit_to_pairs(TWO[None], YES[None], method='temperature'), 'do not'),
    (lambda: fit_to_pairs(TWO), 'must be'),
    (lambda: fit_to_pairs(torch.eye(2), draws=0).threshold(1.0), 'precision'),
    (lambda: fit_to_pairs(torch.eye(2), method='temperature').threshold(0.5), 'P.match'),
    (lambda: fit_to_pairs(torch.eye(2), method='temperature').interval(ONE), 'its own'),
    (lambda: fit_to_pairs(torch.eye(2), draws=0).probabilities(ONE * torch.nan), 'finite'),
    (lambda: reliability(TWO * 9, YES), r'lie in \[0, 1\]'),
    (lambda: Calibration.from_dict({}), 'needs'),
    (lambda: Calibration.from_dict(dict(method='platt', fitted=[1.0])), 'needs'),
    (
        lambda: Calibration.from_dict(
            dict(method='platt', fitted=[1.0], scores=[], lower=[], upper=[])
        ),
        'does not belong',
    ),
]


LINE = dict(method='platt', fitted=[9.0, -3.0], scores=[0.1, 0.5], lower=[0, 0.1], upper=[0.2, 1])
STEPS = dict(LINE, method='isotonic', fitted=[[0.1, 0.5], [0.1, 0.9]])
HEAT = dict(LINE, method='temperature', fitted=[0.1], lower=[0.05], upper=[0.2])
NO_FIT = [
    (dict(LINE, scores=[0.5, 0.1]), 'scores must not decrease'),
    (dict(LINE, lower=[0.1, -0.1]), r'in \[0, 1\]'),
    (dict(LINE, upper=[0.1, 1.5]), r'in \[0, 1\]'),
    (dict(LINE, lower=[0.3, 0.1]), 'above upper'),
    (dict(STEPS, fitted=[[0.5, 0.1], [0.1, 0.9]]), 'may decrease'),
    (dict(STEPS, fitted=[[0.1, 0.5], [0.9, 0.1]]), 'may decrease'),
    (dict(STEPS, fitted=[[0.1, 0.5], [0.1, 1.9]]), r'in \[0, 1\]'),
    (dict(HEAT, fitted=[0.0]), 'must be positive'),
    (dict(HEAT, lower=[-1.0]), 'must be positive'),
]


@pytest.mark.parametrize('values, message', NO_FIT)
def test_what_no_fit_gives_is_not_read(values, message):
    for good in (LINE, STEPS, HEAT):
        Calibration.from_dict(as_lists(good))
    with pytest.raises(ValueError, match=message):
        Calibration.from_dict(as_lists(values))


def as_lists(values):
    return {k: torch.tensor(v).double().tolist() if k != 'method' else v for k, v in values.items()}


@pytest.mark.parametrize('call, message', BAD)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def planted(texts, videos, seed):
    """Scores [texts, videos] in which text i matches video i."""
    random = torch.Generator().manual_seed(seed)
    scores = 0.1 + 0.06 * torch.randn(texts, videos, generator=random)
    own = range(texts)
    scores[own, own] += 0.3 + 0.05 * torch.randn(texts, generator=random)
    return scores, torch.eye(texts, videos, dtype=torch.bool)


@pytest.mark.parametrize('method', ['platt', 'isotonic'])
@pytest.mark.parametrize('precision', [0.5, 0.8, 0.95])
@pytest.mark.parametrize('videos', [400, 4000])
def test_threshold_of_a_bank_on_other_pairs(method, precision, videos):
    """One of 400 pairs matches, so the threshold lies among the few highest scores."""
    fit = fit_to_pairs(planted(400, 400, 0)[0], method=method, draws=2)
    again = Calibration.from_dict(fit.to_dict())
    scores, matches = planted(400, videos, 1)
    shown = scores >= again.threshold(precision, candidates=videos)
    found = matches[shown].double().mean()
    assert abs(found - precision) < 0.12
    assert matches[shown].sum() / 400 > 0.5


def test_a_threshold_takes_all_pairs_of_its_score():
    """Ten pairs of .9 match in nine of ten cases, a hundred of .5 in every second."""
    scores = torch.tensor([0.9] * 10 + [0.5] * 100)
    grades = torch.tensor([0.9] * 10 + [0.5] * 100)
    fit = fit_calibration(scores, grades, method='isotonic', draws=0)
    assert fit.threshold(0.8, scores) == pytest.approx(0.9)
    assert fit.accepts(scores, precision=0.8).sum() == 10


def test_kept_scores_stand_for_all_pairs():
    scores = torch.rand(90, 100, generator=torch.Generator().manual_seed(0))
    fit = fit_to_pairs(scores, torch.rand_like(scores) < scores, draws=0)
    ordered = scores.flatten().double().sort().values
    assert fit.counts.sum() == 9000 and len(fit.scores) <= 256
    assert fit.scores[0] == ordered[0] and fit.scores[-1] == ordered[-1]
    for row in (3, 99, 200):  # as many lie from a score on as its counts say
        assert (ordered >= fit.scores[row]).sum() == fit.counts[row:].sum()
    for wrong in ([1.0], [0.0] * len(fit.scores), 3):
        with pytest.raises(ValueError, match='counts'):
            Calibration.from_dict({**fit.to_dict(), 'counts': wrong})


@pytest.mark.parametrize('method', ['platt', 'isotonic', 'temperature'])
def test_distances_are_refused(method):
    random = torch.Generator().manual_seed(0)
    distances = torch.rand(60, 60, generator=random) - torch.eye(60)
    with pytest.raises(ValueError, match='are these distances'):
        fit_to_pairs(distances, method=method)
    assert fit_to_pairs(-distances, method=method).method == method
    if method != 'temperature':
        with pytest.raises(ValueError, match='are these distances'):
            fit_calibration(distances.flatten(), torch.eye(60).flatten(), method=method)


def test_equal_scores_have_bounds():
    fit = fit_calibration(torch.full((6,), 0.5), torch.arange(6) < 2, method='platt', draws=20)
    assert fit.lower.isfinite().all() and fit.upper.isfinite().all()
    assert Calibration.from_dict(fit.to_dict()).lower.equal(fit.lower)
