import pytest
import torch

from mmvtr.functional.losses.ranking import margin_ranking


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
        value = margin_ranking(
            scores, positives, margin=0.5, weights=weights, direction=direction, **choice
        )
        assert value.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize('positive', ['own', 'hardest'])
def test_an_average_over_entries_counts_those_of_weight_0(case, positive):
    """Unlike the mean over terms: what a supervision leaves out makes the loss smaller."""
    scores, positives, weights = case
    weights = weights * (weights > 0.4)
    assert (weights[~positives] == 0).any() and (weights[~positives] > 0).any()
    total = entries = 0
    for s, p, w in zip(scores.tolist(), positives.tolist(), weights.tolist()):
        own = [x for x, is_own in zip(s, p) if is_own]
        for anchor in own if positive == 'own' else [min(own)]:
            for x, is_own, wx in zip(s, p, w):
                if not is_own:
                    total, entries = total + wx * max(0.0, 0.5 + x - anchor), entries + 1
    options = dict(margin=0.5, weights=weights, positive=positive, direction='t2v')
    value = margin_ranking(scores, positives, average='entries', **options)
    assert value.item() == pytest.approx(total / entries, rel=1e-12)
    assert value < margin_ranking(scores, positives, average='terms', **options)
    full = dict(options, weights=None)
    torch.testing.assert_close(
        margin_ranking(scores, positives, average='entries', **full),
        margin_ranking(scores, positives, average='terms', **full),
    )


@pytest.mark.parametrize('negatives', ['all', 'hardest', 'semi_hard'])
def test_gradients(case, negatives):
    scores, positives, weights = (x.clone() for x in case)
    scores.requires_grad_(), weights.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s, w: margin_ranking(s, positives, margin=0.5, weights=w, negatives=negatives),
        (scores, weights),
    )


def test_random_negative_is_a_negative_and_reproducible(case):
    scores, positives, _ = case
    scores = scores.clone().requires_grad_()

    def gradient(seed):
        loss = margin_ranking(
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
        return margin_ranking(scores, eye, margin=0.5, weights=weights, weight_on=weight_on).item()

    assert loss(low, 'score') > loss(high, 'score')
    assert loss(low, 'hinge') <= loss(high, 'hinge')


def test_golden_clip4clip_max_margin(shared):
    """The official loss sums both directions and counts the diagonal, whose hinge is the margin."""
    import numpy as np

    golden = np.load(shared / 'golden' / 'clip4clip_losses.npz')
    scores = torch.from_numpy(golden['sim'])
    n = len(scores)
    ours = margin_ranking(scores, torch.eye(n, dtype=torch.bool), margin=0.1).item()
    official = 2 * (ours * (n - 1) + 0.1) / n
    assert official == pytest.approx(float(golden['max_margin_m0p1']), rel=1e-6)


def test_golden_mssl(shared):
    """Both directions added; v2t against the mean of the captions; the hardest negative."""
    import numpy as np

    golden = np.load(shared / 'golden' / 'mssl.npz')
    clips = torch.eye(5, dtype=torch.bool)[torch.from_numpy(golden['labels'])]
    frames = torch.eye(9, dtype=torch.bool)  # the official frame loss sees the diagonal only
    for name, positives in (('clip', clips), ('frame', frames)):
        scores = torch.from_numpy(golden[f'{name}_scores'])
        for choice in (dict(negatives='hardest'), dict(negatives='random', pool=1)):
            value = 2 * margin_ranking(
                scores, positives, margin=float(golden['margin']), positive='mean', **choice
            )
            official = float(golden[f'{name}_trip_hard_pool1'])
            assert value.item() == pytest.approx(official, rel=1e-6)
    # One of the 3 hardest videos, but the hardest caption: the official draw is one of ours.
    scores = torch.from_numpy(golden['clip_scores'])
    options = dict(margin=float(golden['margin']), positive='mean', negatives='random')
    captions = margin_ranking(scores, clips, pool=1, direction='v2t', **options).item()
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack(
        [
            margin_ranking(scores, clips, pool=3, direction='t2v', generator=generator, **options)
            for _ in range(200)
        ]
    )
    official = float(golden['clip_trip_hard_pool3_seed123']) - captions
    assert drawn.mean().item() == pytest.approx(official, abs=2 * drawn.std().item())


def drawn_entries(scores, positives, seeds=range(60), **options):
    """How often each entry was drawn by rows, over the seeds; int64 [T, V]."""
    scores = scores.clone().requires_grad_()
    total = torch.zeros(scores.shape, dtype=torch.long)
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        loss = margin_ranking(
            scores, positives, margin=10.0, negatives='random', direction='t2v',
            generator=generator, **options,
        )  # fmt: skip
        total += torch.autograd.grad(loss, scores)[0] > 0
    return total


def test_random_from_the_hardest(case):
    scores, positives, _ = case
    ordered = scores.masked_fill(positives, -9).argsort(dim=1, descending=True)
    for pool in (1, 2, 9):
        expected = torch.zeros_like(positives).scatter_(1, ordered[:, :pool], True) & ~positives
        assert torch.equal(drawn_entries(scores, positives, pool=pool) > 0, expected)
    options = dict(margin=0.5, direction='both')
    assert torch.equal(
        margin_ranking(scores, positives, negatives='random', pool=1, **options),
        margin_ranking(scores, positives, negatives='hardest', **options),
    )


def test_an_entry_of_weight_0_is_no_negative(case):
    scores, positives, weights = case
    present = torch.rand(5, 4, generator=torch.Generator().manual_seed(7)) < 0.6
    present[0] = positives[0]  # a text without a negative
    weights = weights * present
    for pool in (None, 2):
        drawn = drawn_entries(scores, positives, weights=weights, pool=pool) > 0
        assert not drawn[~present].any()
        assert pool or torch.equal(drawn, present & ~positives)
    for negatives in ('all', 'hardest', 'semi_hard'):
        for weight_on in ('hinge', 'score'):
            terms = []
            for i, j in positives.nonzero().tolist():
                own = scores[i, j].item()
                others = [v for v in range(4) if present[i, v] and not positives[i, v]]
                if negatives == 'semi_hard':
                    others = [v for v in others if scores[i, v] < own]
                if negatives != 'all':
                    others = sorted(others, key=lambda v, i=i: -scores[i, v].item())[:1]
                for v in others:
                    s, w = scores[i, v].item(), weights[i, v].item()
                    outer, inner = (w, 1) if weight_on == 'hinge' else (1, w)
                    terms.append(outer * max(0.0, 0.5 + inner * s - own))
            value = margin_ranking(
                scores,
                positives,
                margin=0.5,
                weights=weights,
                negatives=negatives,
                weight_on=weight_on,
                direction='t2v',
            )
            assert value.item() == pytest.approx(sum(terms) / len(terms), rel=1e-12)


def reference_dual(scores, positives, ambiguous, margins, negatives, positive):
    """ARL Eq. 11 + 12 by rows: both divided by the number of anchors; no negative: 0."""
    total, anchors = 0.0, 0
    for s, p, a in zip(scores.tolist(), positives.tolist(), ambiguous.tolist()):
        own = [x for x, is_own in zip(s, p) if is_own]
        own = [sum(own) / len(own)] if own and positive == 'mean' else own
        for x in own:
            anchors += 1
            for kind, margin in zip((False, True), margins):
                chosen = [y for y, is_own, is_a in zip(s, p, a) if not is_own and is_a == kind]
                chosen = [max(chosen)] if chosen and negatives == 'hardest' else chosen
                if chosen:
                    total += sum(max(0.0, margin + y - x) for y in chosen) / len(chosen)
    return total / anchors


@pytest.mark.parametrize('negatives', ['all', 'hardest'])
@pytest.mark.parametrize('positive', ['own', 'mean'])
def test_ambiguous_pairs_are_equations_11_and_12_of_arl(case, negatives, positive):
    scores, positives, _ = case
    ambiguous = torch.rand(5, 4, generator=torch.Generator().manual_seed(2)) < 0.4
    ambiguous[1] = True  # nothing but ambiguous pairs
    ambiguous[2] = False
    choice = dict(negatives=negatives, positive=positive)
    t2v, v2t = (
        reference_dual(*(f(x) for x in (scores, positives, ambiguous)), (0.8, 0.3), **choice)
        for f in (torch.clone, torch.t)
    )
    for direction, expected in [('t2v', t2v), ('v2t', v2t), ('both', (t2v + v2t) / 2)]:
        value = margin_ranking(
            scores,
            positives,
            margin=0.8,
            ambiguous=ambiguous,
            ambiguous_margin=0.3,
            average='anchors',
            direction=direction,
            **choice,
        )
        assert value.item() == pytest.approx(expected, rel=1e-12)


def test_a_random_ambiguous_pair_and_a_random_negative_of_each_text(case):
    scores, positives, weights = case
    ambiguous = torch.rand(5, 4, generator=torch.Generator().manual_seed(2)) < 0.5
    options = dict(ambiguous=ambiguous, ambiguous_margin=9.0)
    drawn = drawn_entries(scores, positives, **options)
    assert torch.equal(drawn > 0, ~positives)
    pairs = positives.sum(1)
    for kind in (ambiguous, ~ambiguous):
        of_kind = (kind & ~positives).any(1)
        bound = 60 * pairs * of_kind
        assert (drawn.where(kind, 0).sum(1) <= bound).all()
        assert torch.equal(drawn.where(kind, 0).sum(1) == 0, ~of_kind)
    only = drawn_entries(scores, positives, weights=ambiguous.double(), **options)
    assert torch.equal(only > 0, ambiguous & ~positives)


def test_few_ambiguous_pairs_make_a_small_loss():
    """One of four texts has an ambiguous video: its hinge is divided by four (1/n of Eq. 11)."""
    scores = torch.eye(4)
    ambiguous = torch.zeros(4, 4, dtype=torch.bool)
    ambiguous[0, 2] = True
    options = dict(margin=0.5, ambiguous=ambiguous, ambiguous_margin=1.2, direction='t2v')
    positives = torch.eye(4, dtype=torch.bool)
    by_anchors = margin_ranking(scores, positives, average='anchors', **options)
    assert by_anchors.item() == pytest.approx(0.2 / 4)
    assert margin_ranking(scores, positives, **options).item() == pytest.approx(0.2)


def test_gradients_with_ambiguous_pairs(case):
    scores, positives, weights = (x.clone() for x in case)
    ambiguous = torch.rand(5, 4, generator=torch.Generator().manual_seed(2)) < 0.4
    scores.requires_grad_(), weights.requires_grad_()

    def loss(s, w):
        return margin_ranking(
            s,
            positives,
            margin=0.5,
            weights=w,
            ambiguous=ambiguous,
            ambiguous_margin=0.31,
            average='anchors',
        )

    assert torch.autograd.gradcheck(loss, (scores, weights))


def test_all_or_nothing_is_ambiguous(case):
    scores, positives, weights = case
    options = dict(weights=weights, ambiguous_margin=0.3)
    none, everything = torch.zeros_like(positives), torch.ones_like(positives)
    for average in ('terms', 'anchors'):
        values = [
            margin_ranking(
                scores, positives, margin=0.8, ambiguous=a, average=average, **options
            ).item()
            for a in (none, None, everything)
        ]
        assert values[0] == values[1]
        alone = margin_ranking(
            scores, positives, margin=0.3, weights=weights, average=average
        ).item()
        assert values[2] == pytest.approx(alone, rel=1e-12)
    half = margin_ranking(scores.half(), positives, ambiguous=everything, **options)
    assert half.dtype == torch.float32


def test_no_positive_and_no_negative(case):
    scores, positives, _ = case
    scores = scores.clone().requires_grad_()
    for empty in (torch.zeros_like(positives), torch.ones_like(positives)):
        for negatives in ('all', 'hardest', 'random'):
            for positive in ('own', 'mean', 'hardest'):
                loss = margin_ranking(scores, empty, negatives=negatives, positive=positive)
                (gradient,) = torch.autograd.grad(loss, scores)
                assert loss.item() == 0 and torch.isfinite(gradient).all()


def test_bad_input(case):
    scores, positives, _ = case
    for bad in (
        dict(negatives='easy'),
        dict(positive='best'),
        dict(weight_on='x'),
        dict(direction='v2v'),
        dict(average='rows'),
    ):
        with pytest.raises(ValueError, match=f'{next(iter(bad))} must be one of'):
            margin_ranking(scores, positives, **bad)
    for bad in (dict(negatives='random', pool=0), dict(negatives='hardest', pool=3)):
        with pytest.raises(ValueError, match='pool must be at least 1 and needs'):
            margin_ranking(scores, positives, **bad)
