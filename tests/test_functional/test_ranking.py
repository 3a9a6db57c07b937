import pytest
import torch

from mmvtr.functional.ranking import ranking


@pytest.fixture
def case():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    positives = torch.zeros(5, 4, dtype=torch.bool)
    for t, v in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (4, 1)]:
        positives[t, v] = True
    return scores, positives, torch.rand(5, 4, generator=generator, dtype=torch.float64)


def reference_rows(scores, positives, weights, margin, negatives, positive, weight_on):
    terms = []
    for s, p, w in zip(scores.tolist(), positives.tolist(), weights.tolist()):
        own = [x for x, is_own in zip(s, p) if is_own]
        other = [(x, wx) for x, is_own, wx in zip(s, p, w) if not is_own]
        if not own:
            continue
        anchors = dict(own=own, mean=[sum(own) / len(own)], hardest=[min(own)])[positive]
        for a in anchors:
            chosen = other
            if negatives == 'semi_hard':
                chosen = [pair for pair in other if pair[0] < a]
            if negatives != 'all':
                chosen = [max(chosen)] if chosen else []
            for x, wx in chosen:
                if weight_on == 'hinge':
                    terms.append(wx * max(0.0, margin + x - a))
                else:
                    terms.append(max(0.0, margin + wx * x - a))
    return sum(terms) / len(terms)


@pytest.mark.parametrize('negatives', ['all', 'hardest', 'semi_hard'])
@pytest.mark.parametrize('positive', ['own', 'mean', 'hardest'])
@pytest.mark.parametrize('weight_on', ['hinge', 'score'])
def test_equals_the_equation(case, negatives, positive, weight_on):
    scores, positives, weights = case
    choice = dict(negatives=negatives, positive=positive, weight_on=weight_on)
    t2v = reference_rows(scores, positives, weights, 0.5, **choice)
    v2t = reference_rows(scores.t(), positives.t(), weights.t(), 0.5, **choice)
    for direction, expected in [('t2v', t2v), ('v2t', v2t), ('both', (t2v + v2t) / 2)]:
        value = ranking(
            scores, positives, margin=0.5, weights=weights, direction=direction, **choice
        )
        assert value.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize('negatives', ['all', 'hardest', 'semi_hard'])
def test_gradients(case, negatives):
    scores, positives, weights = (x.clone() for x in case)
    scores.requires_grad_(), weights.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s, w: ranking(s, positives, margin=0.5, weights=w, negatives=negatives),
        (scores, weights),
    )


def test_random_negative_is_a_negative_and_reproducible(case):
    scores, positives, _ = case
    scores = scores.clone().requires_grad_()

    def gradient(seed):
        loss = ranking(
            scores,
            positives,
            margin=10.0,
            negatives='random',
            direction='t2v',
            generator=torch.Generator().manual_seed(seed),
        )
        return torch.autograd.grad(loss, scores)[0]

    drawn = torch.stack([gradient(seed) for seed in range(60)])
    assert torch.equal(gradient(3), drawn[3])
    assert ((drawn > 0).any(0) == ~positives).all()  # each negative comes up, no positive does
    assert ((drawn > 0).sum((1, 2)) >= 5).all()


def test_literal_equation_12_grows_as_eta_falls_where_the_score_is_negative():
    scores = torch.tensor([[0.1, -0.4], [-0.4, 0.1]])
    eye = torch.eye(2, dtype=torch.bool)
    low, high = torch.full((2, 2), 0.1), torch.full((2, 2), 0.9)

    def loss(weights, weight_on):
        return ranking(scores, eye, margin=0.5, weights=weights, weight_on=weight_on).item()

    assert loss(low, 'score') > loss(high, 'score')
    assert loss(low, 'hinge') <= loss(high, 'hinge')


def test_golden_clip4clip_max_margin(shared):
    """The official loss sums both directions and counts the diagonal, whose hinge is the margin."""
    import numpy as np

    golden = np.load(shared / 'golden' / 'clip4clip_losses.npz')
    scores = torch.from_numpy(golden['sim'])
    n = len(scores)
    ours = ranking(scores, torch.eye(n, dtype=torch.bool), margin=0.1).item()
    official = 2 * (ours * (n - 1) + 0.1) / n
    assert official == pytest.approx(float(golden['max_margin_m0p1']), rel=1e-6)


def test_no_positive_and_no_negative(case):
    scores, positives, _ = case
    scores = scores.clone().requires_grad_()
    for empty in (torch.zeros_like(positives), torch.ones_like(positives)):
        for negatives in ('all', 'hardest', 'random'):
            for positive in ('own', 'mean', 'hardest'):
                loss = ranking(scores, empty, negatives=negatives, positive=positive)
                (gradient,) = torch.autograd.grad(loss, scores)
                assert loss.item() == 0 and torch.isfinite(gradient).all()


def test_bad_input(case):
    scores, positives, _ = case
    for bad in (
        dict(negatives='easy'),
        dict(positive='best'),
        dict(weight_on='x'),
        dict(direction='v2v'),
    ):
        with pytest.raises(ValueError, match=f'{next(iter(bad))} must be one of'):
            ranking(scores, positives, **bad)
