import math

import numpy as np
import pytest
import torch

from mmvtr.functional.losses.contrastive import (
    Columns,
    Sums,
    contrastive,
    contrastive_sums,
    loss_of_sums,
)
from mmvtr.functional.losses.negative_weights import group_weights


@pytest.fixture
def case():
    """Scores, positives with siblings (T=6, V=4; text 5 has no video), weights; float64."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    positives = torch.zeros(6, 4, dtype=torch.bool)
    for t, v in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (4, 1)]:
        positives[t, v] = True
    weights = torch.rand(6, 4, generator=generator, dtype=torch.float64)
    return scores, positives, weights


def reference_rows(scores, positives, weights, form):
    """The equations, entry by entry."""
    terms = []
    for s, p, w in zip(scores.tolist(), positives.tolist(), weights.tolist()):
        own = [x for x, is_own in zip(s, p) if is_own]
        negative = sum(wx * math.exp(x) for x, is_own, wx in zip(s, p, w) if not is_own)
        if not own:
            continue
        total = sum(math.exp(x) for x in own) + negative
        if form == 'pooled':
            terms.append(-math.log(sum(math.exp(x) for x in own) / total))
        elif form == 'own_pair':
            terms += [-math.log(math.exp(x) / (math.exp(x) + negative)) for x in own]
        else:
            terms.append(sum(-math.log(math.exp(x) / total) for x in own) / len(own))
    return sum(terms) / len(terms)


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('temperature', [1.0, 0.07])
def test_equals_the_equation(case, form, weighted, temperature):
    scores, positives, weights = case
    w = weights if weighted else torch.ones_like(weights)
    t2v = reference_rows(scores / temperature, positives, w, form)
    v2t = reference_rows(scores.t() / temperature, positives.t(), w.t(), form)
    options = dict(temperature=temperature, weights=weights if weighted else None, form=form)
    for direction, expected in [('t2v', t2v), ('v2t', v2t), ('both', (t2v + v2t) / 2)]:
        value = contrastive(scores, positives, direction=direction, **options)
        assert value.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
def test_gradients(case, form):
    scores, positives, weights = (x.clone() for x in case)
    temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    scores.requires_grad_(), weights.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s, w, tau: contrastive(s, positives, temperature=tau, weights=w, form=form),
        (scores, weights, temperature),
    )


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
def test_texts_that_count_differently(case, form):
    """The mean over texts (own_pair: over their pairs), by loops; that over videos as before."""
    scores, positives, weights = case
    counts = torch.tensor([0.5, 2.0, 0.0, 1.0, 0.3, 9.0], dtype=torch.float64)
    total = parts = 0.0
    for t in range(5):  # text 5 has no video
        pairs = int(positives[t].sum()) if form == 'own_pair' else 1
        row = reference_rows(scores[t : t + 1], positives[t : t + 1], weights[t : t + 1], form)
        total += counts[t].item() * pairs * row
        parts += counts[t].item() * pairs
    how = dict(weights=weights, form=form)
    value = contrastive(scores, positives, counts=counts, direction='t2v', **how)
    assert value.item() == pytest.approx(total / parts, rel=1e-12)
    other = contrastive(scores, positives, direction='v2t', **how)
    assert contrastive(scores, positives, counts=counts, direction='v2t', **how) == other
    nothing = contrastive(scores, positives, counts=0 * counts, direction='t2v', **how)
    assert nothing == 0
    assert torch.autograd.gradcheck(
        lambda s, c: contrastive(s, positives, counts=c, **how),
        (scores.clone().requires_grad_(), counts.requires_grad_()),
    )


def test_one_pair_a_row_is_symmetric_cross_entropy():
    scores = torch.randn(5, 5, dtype=torch.float64)
    labels = torch.arange(5)
    expected = torch.nn.functional.cross_entropy(scores, labels)
    expected = (expected + torch.nn.functional.cross_entropy(scores.t(), labels)) / 2
    for form in ('pooled', 'own_pair', 'outer_sum'):
        value = contrastive(scores, torch.eye(5, dtype=torch.bool), form=form)
        torch.testing.assert_close(value, expected)


def test_golden_clip4clip(shared):
    golden = np.load(shared / 'golden' / 'clip4clip_losses.npz')
    scores = torch.from_numpy(golden['sim'])
    eye = torch.eye(len(scores), dtype=torch.bool)
    for direction, key in [('t2v', 'cross_en_row'), ('v2t', 'cross_en_col'), ('both', 'sym')]:
        value = contrastive(scores, eye, direction=direction)
        assert value.item() == pytest.approx(float(golden[key]), rel=1e-6)


def test_golden_mssl(shared):
    """MS-SL's losses: clip_nce on raw products of 9 captions with 5 videos, frame_nce of 9 x 9."""
    golden = np.load(shared / 'golden' / 'mssl.npz')
    positives = torch.eye(5, dtype=torch.bool)[torch.from_numpy(golden['labels'])]
    value = 2 * contrastive(torch.from_numpy(golden['clip_scores_raw']), positives)
    assert value.item() == pytest.approx(float(golden['clip_nce']), rel=1e-6)
    # frame_nce has rows and columns in one denominator, the positive twice.
    scores = torch.from_numpy(golden['frame_scores_raw'])
    eye = torch.eye(9, dtype=torch.bool)
    value = contrastive(
        torch.cat([scores, scores.t()], 1), torch.cat([eye, ~eye & eye], 1), direction='t2v'
    )
    assert value.item() == pytest.approx(float(golden['frame_nce']), rel=1e-6)


def ambiguous_of(scores, positives):
    generator = torch.Generator().manual_seed(5)
    return (torch.rand(scores.shape, generator=generator) < 0.5) & ~positives


def reference_arl(scores, positives, ambiguous, weights):
    """ARL Eq. 8 and 9 of each annotated pair (i, j); weights at A and N, in all sums."""
    e, terms = (weights * scores.exp()).tolist(), ([], [])
    for i, j in positives.nonzero().tolist():
        own = scores[i, j].exp().item()
        others = [v for v in range(scores.shape[1]) if not positives[i, v]]
        shared = sum(e[i][v] for v in others if ambiguous[i, v])
        terms[0].append(-math.log((own + shared) / (own + sum(e[i][v] for v in others))))
        others = [t for t in range(scores.shape[0]) if not positives[t, j]]
        shared = sum(e[t][j] for t in others if ambiguous[t, j])
        terms[1].append(-math.log((own + shared) / (own + sum(e[t][j] for t in others))))
    return tuple(sum(x) / len(x) for x in terms)


@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('temperature', [1.0, 0.07])
def test_ambiguous_pairs_are_equations_8_to_10_of_arl(case, weighted, temperature):
    scores, positives, weights = case
    ambiguous = ambiguous_of(scores, positives)
    assert 4 < ambiguous.sum() < (~positives).sum() - 4
    w = weights if weighted else torch.ones_like(weights)
    t2v, v2t = reference_arl(scores / temperature, positives, ambiguous, w)
    for direction, expected in [('t2v', t2v), ('v2t', v2t), ('both', (t2v + v2t) / 2)]:
        for given in (ambiguous, ambiguous | positives):  # entries at positives are ignored
            value = contrastive(
                scores,
                positives,
                temperature=temperature,
                weights=weights if weighted else None,
                ambiguous=given,
                form='own_pair',
                direction=direction,
            )
            assert value.item() == pytest.approx(expected, rel=1e-11, abs=1e-12)


def test_gradients_with_ambiguous_pairs(case):
    scores, positives, weights = (x.clone() for x in case)
    ambiguous = ambiguous_of(scores, positives)
    temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    scores.requires_grad_(), weights.requires_grad_()

    def loss(s, w, tau):
        return contrastive(
            s, positives, temperature=tau, weights=w, ambiguous=ambiguous, form='own_pair'
        )

    assert torch.autograd.gradcheck(loss, (scores, weights, temperature))


def test_no_ambiguous_pair_and_nothing_but_ambiguous_pairs(case):
    scores, positives, weights = case
    plain = contrastive(scores, positives, weights=weights, form='own_pair')
    options = dict(weights=weights, form='own_pair')
    empty = contrastive(scores, positives, ambiguous=torch.zeros_like(positives), **options)
    torch.testing.assert_close(empty, plain)
    scores = scores.clone().requires_grad_()
    for dtype in (torch.float64, torch.float16):
        loss = contrastive(scores.to(dtype), positives, ambiguous=~positives, **options)
        (gradient,) = torch.autograd.grad(loss, scores)
        assert loss.item() == 0 and gradient.abs().max() < 1e-7
    nothing = contrastive(scores[:0], positives[:0], ambiguous=positives[:0], form='own_pair')
    assert nothing.item() == 0


def test_an_ambiguous_pair_is_pulled_where_a_negative_is_pushed():
    """Row 0 has an ambiguous entry and a negative, row 1 the same without ambiguity."""
    scores = torch.tensor([[0.5, 0.4, 0.1], [0.4, 0.5, 0.1]], requires_grad=True)
    positives = torch.tensor([[1, 0, 0], [0, 1, 0]]).bool()
    ambiguous = torch.tensor([[0, 1, 0], [0, 0, 0]]).bool()
    loss = contrastive(scores, positives, ambiguous=ambiguous, form='own_pair', direction='t2v')
    (gradient,) = torch.autograd.grad(loss, scores)
    assert gradient[0, 1] < 0 < gradient[1, 0]
    assert (gradient[:, 2] > 0).all()


def test_ambiguous_pairs_in_half_precision(case):
    scores, positives, weights = case
    options = dict(temperature=0.02, form='own_pair', ambiguous=ambiguous_of(scores, positives))
    exact = contrastive(scores.half().double(), positives, **options)
    for dtype in (torch.float16, torch.float32):
        value = contrastive(scores.half().to(dtype), positives, **options)
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(exact.item(), rel=1e-5)


def test_lower_weight_means_smaller_push(case):
    scores, positives, _ = case
    scores = scores.clone().requires_grad_()
    weights = torch.ones_like(scores)
    weights[0, 2] = 0.1
    (full,) = torch.autograd.grad(contrastive(scores, positives), scores)
    (eased,) = torch.autograd.grad(contrastive(scores, positives, weights=weights), scores)
    assert 0 < eased[0, 2] < full[0, 2]


def test_weight_zero_removes_a_negative():
    scores = torch.tensor([[-0.5, 0.5], [0.0, 0.4]], requires_grad=True)
    weights = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    loss = contrastive(
        scores, torch.eye(2).bool(), temperature=0.01, weights=weights, direction='t2v'
    )
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.item() == pytest.approx(0.0, abs=1e-6) and gradient[0].abs().max() == 0


def test_extremes_stay_finite():
    eye = torch.eye(3, dtype=torch.bool)
    scores = torch.tensor([[1.0, -1, 1], [0, 1, 0], [1, 1, 1]], requires_grad=True)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        loss = contrastive(scores.to(dtype), eye, temperature=1e-3, weights=torch.zeros(3, 3))
        (gradient,) = torch.autograd.grad(loss, scores)
        assert loss.item() == 0 and torch.isfinite(gradient).all()
    loss = contrastive(scores, torch.ones(3, 3, dtype=torch.bool))  # no negatives at all
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.item() == 0 and torch.isfinite(gradient).all()
    loss = contrastive(scores, torch.zeros(3, 3, dtype=torch.bool))  # no positives at all
    assert loss.item() == 0 and loss.requires_grad


def test_bad_input(case):
    scores, positives, _ = case
    with pytest.raises(ValueError, match='form must be'):
        contrastive(scores, positives, form='sum')
    with pytest.raises(ValueError, match='direction must be'):
        contrastive(scores, positives, direction='v2v')
    with pytest.raises(ValueError, match='differ'):
        contrastive(scores, positives[:, :3])
    with pytest.raises(ValueError, match="ambiguous pairs need form='own_pair', not 'pooled'"):
        contrastive(scores, positives, ambiguous=positives)


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
@pytest.mark.parametrize('direction', ['t2v', 'v2t'])
def test_sums_of_blocks_are_joined(case, form, direction):
    """Of texts 0-1, none and 2-5: values and gradients, also of weights and counts."""
    scores, positives, weights = case
    weights = weights.index_fill(0, torch.tensor([1]), 0.0)
    counts = torch.tensor([0.5, 2.0, 0.0, 1.0, 0.3, 9.0], dtype=torch.float64)
    ambiguous = (weights > 0.5) & ~positives if form == 'own_pair' else None
    how = dict(temperature=0.3, form=form, direction=direction)

    def loss(scores, weights, counts):
        parts = []
        for rows in (slice(0, 2), slice(2, 2), slice(2, 6)):
            more = dict(weights=weights[rows], counts=counts[rows])
            if ambiguous is not None:
                more.update(ambiguous=ambiguous[rows])
            sums = contrastive_sums(scores[rows], positives[rows], **how, **more)
            parts.append(sums[direction])
        return loss_of_sums(Sums.join(parts, direction), form)

    expected = contrastive(
        scores, positives, weights=weights, counts=counts, ambiguous=ambiguous, **how
    )
    torch.testing.assert_close(loss(scores, weights, counts), expected, rtol=1e-12, atol=0)
    inputs = [x.requires_grad_() for x in (scores, (weights + 0.1).detach(), counts)]
    assert torch.autograd.gradcheck(loss, inputs)


def test_weights_wider_than_the_scores():
    weights = torch.full((2, 2), 0.1, dtype=torch.float64)
    value = contrastive(torch.eye(2), torch.eye(2).bool(), weights=weights)
    assert value.item() == pytest.approx(math.log(1 + 0.1 / math.e), rel=1e-6)


@pytest.fixture
def soft(case):
    """Positives by degrees: those of the case, some of them less, and others a little; float64."""
    scores, positives, weights = case
    generator = torch.Generator().manual_seed(3)
    degree = torch.rand(6, 4, generator=generator, dtype=torch.float64) ** 3
    degree[degree < 0.1] = 0.0
    degree[positives] = 1.0
    degree[2, 1], degree[3, 2], degree[5] = 0.4, 0.9, torch.tensor([0.0, 0.2, 0.0, 0.7])
    assert ((degree > 0) & (degree < 1)).sum() > 6
    return scores, degree, weights


def soft_rows(scores, degree, weights, form):
    """The equations of soft positives, entry by entry."""
    total = parts = 0.0
    for s, y, w in zip(scores.tolist(), degree.tolist(), weights.tolist()):
        pull = [yx * math.exp(x) for x, yx in zip(s, y)]
        push = sum((1 - yx) * wx * math.exp(x) for x, yx, wx in zip(s, y, w))
        if not any(y):
            continue
        if form == 'pooled':
            total, parts = total - math.log(sum(pull) / (sum(pull) + push)), parts + 1
        elif form == 'own_pair':
            for x, yx in zip(pull, y):
                total += -yx * math.log(x / (x + push)) if yx else 0.0
                parts += yx
        else:
            log = math.log(sum(pull) + push)
            total += sum(yx * (log - x) for x, yx in zip(s, y)) / sum(y)
            parts += 1
    return total / parts


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('temperature', [1.0, 0.07])
def test_soft_positives_equal_the_equation(soft, form, weighted, temperature):
    scores, degree, weights = soft
    w = weights if weighted else torch.ones_like(weights)
    t2v = soft_rows(scores / temperature, degree, w, form)
    v2t = soft_rows(scores.t() / temperature, degree.t(), w.t(), form)
    options = dict(temperature=temperature, weights=weights if weighted else None, form=form)
    for direction, expected in [('t2v', t2v), ('v2t', v2t), ('both', (t2v + v2t) / 2)]:
        value = contrastive(scores, degree, direction=direction, **options)
        assert value.item() == pytest.approx(expected, rel=1e-12)
        value = contrastive(scores.float(), degree.float(), direction=direction, **options)
        assert value.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
def test_gradients_of_soft_positives(soft, form):
    """Also of the degrees themselves, where they lie between 0 and 1."""
    scores, degree, weights = (x.clone() for x in soft)
    between = (degree > 0) & (degree < 1)
    counts = torch.tensor([0.5, 2.0, 0.0, 1.0, 0.3, 9.0], dtype=torch.float64)

    def loss(s, y, w, c):
        some = degree.masked_scatter(between, y)
        return contrastive(s, some, temperature=0.4, weights=w, counts=c, form=form)

    inputs = [x.detach().requires_grad_() for x in (scores, degree[between], weights, counts)]
    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
@pytest.mark.parametrize('dtype', [torch.float16, torch.float32, torch.float64])
def test_degrees_of_0_and_1_are_false_and_true(case, form, dtype):
    """Text 5 has no positive: it is left out of sums, and an error of the whole matrix."""
    scores, positives, weights = case
    counts = torch.tensor([0.5, 2.0, 0.0, 1.0, 0.3, 9.0])
    ambiguous = ambiguous_of(scores, positives) if form == 'own_pair' else None
    found = []
    for given in (positives, positives.to(dtype)):
        leaf = scores.to(dtype).requires_grad_()
        how = dict(temperature=0.3, weights=weights.to(dtype), counts=counts, ambiguous=ambiguous)
        sums = contrastive_sums(leaf, given, form=form, **how)
        loss = sum(loss_of_sums(one, form) for one in sums.values())
        found.append((loss.detach(), *torch.autograd.grad(loss, leaf)))
    for mine, theirs in zip(*found):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)


def test_soft_positives_with_ambiguous_pairs(soft):
    """A pair's ambiguous entries join its numerator with what of them is negative."""
    scores, degree, weights = soft
    ambiguous = torch.rand(6, 4, generator=torch.Generator().manual_seed(6)) < 0.5
    total = parts = 0.0
    for t in range(6):
        pull = (degree[t] * scores[t].exp()).tolist()
        push = ((1 - degree[t]) * weights[t] * scores[t].exp()).tolist()
        shared = sum(x for x, found in zip(push, ambiguous[t]) if found)
        for x, y in zip(pull, degree[t].tolist()):
            total -= y * math.log((x + shared) / (x + sum(push))) if y else 0.0
            parts += y
    how = dict(weights=weights, ambiguous=ambiguous, form='own_pair', direction='t2v')
    value = contrastive(scores, degree, **how)
    assert value.item() == pytest.approx(total / parts, rel=1e-12)


@pytest.mark.parametrize('direction', ['t2v', 'v2t'])
@pytest.mark.parametrize('form', ['pooled', 'own_pair', 'outer_sum'])
def test_sums_of_blocks_of_soft_positives(soft, form, direction):
    scores, degree, weights = soft
    how = dict(temperature=0.3, form=form, direction=direction)
    parts = [
        contrastive_sums(scores[rows], degree[rows], weights=weights[rows], **how)[direction]
        for rows in (slice(0, 2), slice(2, 2), slice(2, 6))
    ]
    expected = contrastive(scores, degree, weights=weights, **how)
    found = loss_of_sums(Sums.join(parts, direction), form)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_bad_soft_positives(soft):
    scores, degree, _ = soft
    for value in (-0.01, 1.01, math.nan, math.inf):
        wrong = degree.clone()
        wrong[1, 2] = value
        with pytest.raises(ValueError, match=r'soft positives must lie in \[0, 1\]'):
            contrastive(scores, wrong)
    for rows in (slice(4, 5), slice(3, 6)):
        wrong = degree.clone()
        wrong[rows] = 0.0
        with pytest.raises(ValueError, match=f'text {rows.start} has no soft positive'):
            contrastive(scores, wrong)
    contrastive(scores, wrong.index_fill(1, torch.tensor([0]), 0.5), direction='t2v')
    wrong = degree.index_fill(1, torch.tensor([2]), 0.0)
    contrastive(scores, wrong.index_fill(0, torch.tensor([3]), 0.1), direction='t2v')
    with pytest.raises(ValueError, match='video 2 has no soft positive'):
        contrastive(scores, wrong, direction='v2t')


def by_loops(scores, positives, weights, more):
    """The pooled loss of rows, whose denominators have further entries (w, s) of each row."""
    terms = []
    for s, p, w, further in zip(scores.tolist(), positives.tolist(), weights.tolist(), more):
        own = sum(math.exp(x) for x, is_own in zip(s, p) if is_own)
        push = sum(wx * math.exp(x) for x, is_own, wx in zip(s, p, w) if not is_own)
        if any(p):
            terms.append(math.log((own + push + sum(w * math.exp(x) for w, x in further)) / own))
    return sum(terms) / len(terms)


@pytest.fixture
def further():
    """Two sets of columns of texts, one of videos with two rows of video 1 and none of video 2."""
    generator = torch.Generator().manual_seed(8)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    rows = torch.tensor([0, 1, 1, 3])
    weights = draw(4, 2).abs()
    weights[0, 1] = 0.0
    return dict(t2v=[Columns(draw(6, 3)), Columns(draw(6, 2), draw(6, 2).abs())]), dict(
        v2t=[Columns(draw(4, 2), weights, rows)]
    )


def test_further_columns_stand_in_the_denominators(case, further):
    scores, positives, weights = case
    (of_texts, of_videos), temperature = further, 0.5
    one, two = of_texts['t2v']
    texts = [
        [*((1.0, s / temperature) for s in a), *((w, s / temperature) for w, s in zip(ws, b))]
        for a, b, ws in zip(one.scores.tolist(), two.scores.tolist(), two.weights.tolist())
    ]
    videos = [[] for _ in range(4)]
    (columns,) = of_videos['v2t']
    for row, anchor in enumerate(columns.anchor.tolist()):
        for w, s in zip(columns.weights[row].tolist(), columns.scores[row].tolist()):
            videos[anchor].append((w, s / temperature))
    expected = dict(
        t2v=by_loops(scores / temperature, positives, weights, texts),
        v2t=by_loops(scores.t() / temperature, positives.t(), weights.t(), videos),
    )
    how = dict(temperature=temperature, weights=weights, columns={**of_texts, **of_videos})
    for way, value in expected.items():
        assert contrastive(scores, positives, direction=way, **how).item() == pytest.approx(value)
    value = contrastive(scores, positives, **how).item()
    assert value == pytest.approx(sum(expected.values()) / 2)

    def loss(s, a, b, w):
        more = dict(t2v=[Columns(a, w)], v2t=[Columns(b, None, columns.anchor)])
        return contrastive(s, positives, temperature=0.5, columns=more, form='own_pair')

    inputs = (scores, two.scores, columns.scores, two.weights)
    assert torch.autograd.gradcheck(loss, [x.clone().requires_grad_() for x in inputs])


def test_weights_and_counts_by_direction(case):
    scores, positives, weights = case
    other = weights.flip(0, 1)
    counts = dict(t2v=torch.rand(6, dtype=torch.float64), v2t=torch.rand(4, dtype=torch.float64))
    transposed = contrastive(
        scores.t(), positives.t(), weights=other.t(), counts=counts['v2t'], direction='t2v'
    )
    straight = contrastive(
        scores, positives, weights=weights, counts=counts['t2v'], direction='t2v'
    )
    how = dict(weights=dict(t2v=weights, v2t=other), counts=counts)
    value = contrastive(scores, positives, **how)
    torch.testing.assert_close(value, (straight + transposed) / 2, rtol=1e-12, atol=0)
    half = contrastive(scores, positives, weights=dict(t2v=weights), direction='v2t')
    assert half == contrastive(scores, positives, direction='v2t')
    parts = [
        contrastive_sums(scores[r], positives[r], weights=dict(v2t=other[r]), counts=counts)['v2t']
        for r in (slice(0, 2), slice(2, 6))
    ]
    found = loss_of_sums(Sums.join(parts, 'v2t'), 'pooled')
    torch.testing.assert_close(found, transposed, rtol=1e-12, atol=0)
    for name in ('weights', 'counts', 'columns'):
        with pytest.raises(
            ValueError, match=f"{name} must have the keys 't2v' and 'v2t', not 'both'"
        ):
            contrastive(scores, positives, **{name: dict(both=weights)})


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_unite(shared, size):
    """Candidates of the target's modality; pairs of one ``idx`` are summed, not averaged."""
    golden = np.load(shared / 'golden/unite.npz')
    modal, idx = (torch.from_numpy(golden[f'{size}.{n}']) for n in ('target_modal', 'idx'))
    names = [n for n in golden.files if n.startswith(f'{size}.dual') and n.endswith('.loss')]
    assert len(names) >= 16
    for name in names:
        case = name[: -len('.loss')]
        dual, masked, mined, several = (
            int(case.split(key)[1][0]) for key in ('dual', 'modal', 'neg', 'idx')
        )
        leaves = [torch.from_numpy(golden[f'{size}.{n}']) for n in ('query', 'cand', 'neg')]
        query, candidate, negative = (x.requires_grad_() for x in leaves)
        eye = torch.eye(len(query)).bool()
        same = idx[:, None] == idx if several else eye
        how = dict(temperature=float(case.split('_T')[1]), form='outer_sum')
        number = same.sum(1).double()
        if masked:
            how.update(weights=dict(t2v=group_weights(eye, modal)))
        if mined:
            how.update(columns=dict(t2v=[Columns(query @ negative.T)]))
        loss = contrastive(
            query @ candidate.T,
            same,
            counts=dict(t2v=number, v2t=number),
            direction='both' if dual else 't2v',
            **how,
        )
        loss = loss * number.mean()
        used = dict(query=query, cand=candidate, **(dict(neg=negative) if mined else {}))
        np.testing.assert_allclose(loss.item(), golden[name], rtol=1e-9, err_msg=case)
        for key, gradient in zip(used, torch.autograd.grad(loss, list(used.values()))):
            stored = golden[f'{case}.grad.{key}']
            np.testing.assert_allclose(gradient, stored, rtol=1e-6, atol=1e-9, err_msg=case)
