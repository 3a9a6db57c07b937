"""Each transform against its published numbers and against a loop that spells it out."""

import math

import numpy as np
import pytest
import torch

from mmvtr.functional.similarities.tiles import Tiles, as_tiles, inner_products
from mmvtr.functional.transforms.score_transforms import (
    activation_set,
    csls,
    dual_softmax,
    hedged_scaling,
    inverted_softmax,
    local_scaling,
    nnn,
    qb_norm,
    sinkhorn_scores,
    unbalanced_sinkhorn,
)
from mmvtr.functional.transforms.sinkhorn import sinkhorn

#: Every transform with typical arguments, as function(scores, bank).
TRANSFORMS = {
    'sinkhorn': lambda s, g: sinkhorn_scores(s, g, temperature=0.1),
    'unbalanced_sinkhorn': lambda s, g: unbalanced_sinkhorn(s, g, temperature=0.1),
    'inverted_softmax': lambda s, g: inverted_softmax(s, g, temperature=0.1),
    'dual_softmax': lambda s, g: dual_softmax(s, g, temperature=0.1),
    'qb_norm': lambda s, g: qb_norm(s, g, temperature=0.1, neighbours=2),
    'csls': lambda s, g: csls(s, g, neighbours=3),
    'local_scaling': lambda s, g: local_scaling(s, g, strength=0.6, share=1.0),
    'nnn': lambda s, g: nnn(s, g, neighbours=4, alpha=0.6),
    'hedged_scaling': lambda s, g: hedged_scaling(s, g, first=0.7, strength=0.5, share=1.0),
}
every_transform = pytest.mark.parametrize('transform', TRANSFORMS.values(), ids=TRANSFORMS)


def matrices(queries=6, bank=9, gallery=5, *, seed=0):
    """Scores of queries and of a bank with one gallery, in which item 2 is a hub."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(queries + bank, gallery, generator=generator).double()
    drawn[:, 2] += 0.4
    return drawn[:queries], drawn[queries:]


def loop(scores, entry):
    """The matrix of ``entry(i, j)``."""
    rows, columns = scores.shape
    return torch.tensor(
        [[float(entry(i, j)) for j in range(columns)] for i in range(rows)]
    ).double()


def order(scores):
    return scores.argsort(dim=1, descending=True)


# Published numbers.


def test_golden_dual_softmax(shared):
    golden = {k: torch.from_numpy(v) for k, v in np.load(shared / 'golden' / 'dsl.npz').items()}
    for name, prefix in (('sim', 'uatvr_infer'), ('nonsquare', 'nonsquare_infer')):
        t2v, v2t = golden[name], golden[name].t()
        for scores, expected in ((t2v, f'{prefix}_t2v'), (v2t, f'{prefix}_v2t')):
            found = dual_softmax(scores, scores, temperature=1.0)
            torch.testing.assert_close(found, golden[expected], atol=1e-5, rtol=1e-6)
    found = dual_softmax(golden['sim'], golden['sim'], temperature=1000.0)
    torch.testing.assert_close(found, golden['revised_temp1000'], atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize('k', [1, 3])
@pytest.mark.parametrize('beta, name', [(20, '20.0000'), (1 / 1.99, '0.5025'), (100, '100.0000')])
def test_golden_qb_norm(shared, k, beta, name):
    golden = np.load(shared / 'golden' / 'qbnorm_dis.npz')
    bank, scores = (torch.from_numpy(golden[f'sims_{x}_test']) for x in ('train', 'test'))
    active = activation_set(bank, neighbours=k)
    assert active.nonzero().flatten().tolist() == sorted(golden[f'activation_set_k{k}'].tolist())
    normalised = active[scores.argmax(1)]
    if k == 1:
        assert normalised.nonzero().flatten().tolist() == golden['rows_normalised_k1'].tolist()
    found = qb_norm(scores, bank, temperature=1 / beta, neighbours=k)
    published = torch.where(normalised[:, None], (found * beta).exp(), found)
    expected = torch.from_numpy(golden[f'dis_k{k}_b{name}'])
    torch.testing.assert_close(published, expected, atol=1e-5, rtol=1e-10)
    assert torch.equal(order(found), order(expected))


def test_golden_ncl_queue(shared):
    golden = np.load(shared / 'golden' / 'ncl_fig4.npz')
    bank, scores = (torch.from_numpy(golden[name]) for name in ('queue_cos', 'cos'))
    found = sinkhorn_scores(scores, bank, temperature=float(golden['gamma']))
    expected = golden['cos'] + golden['queue_b_for_videos']
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=1e-9, rtol=0)


@pytest.mark.parametrize('size, ks', [('tiny', (1, 3, 9)), ('mid', (1, 5, 25))])
@pytest.mark.parametrize('alpha', ['0.5', '0.75', '1'])
def test_golden_nnn(shared, size, ks, alpha):
    golden = np.load(shared / 'golden' / 'nnn.npz')
    scores, bank = (torch.from_numpy(golden[f'{size}.{x}']) for x in ('sims', 'bank_sims'))
    for k in ks:
        found = nnn(scores, bank, neighbours=k, alpha=float(alpha))
        expected = torch.from_numpy(golden[f'{size}.nnn_k{k}_a{alpha}.scores'])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        top = golden[f'{size}.nnn_k{k}_a{alpha}.top']
        assert np.array_equal(found.topk(3, dim=1).indices.numpy(), top)


# Definitions, spelt out.


def test_sinkhorn_scores_add_the_columns_biases_of_the_bank():
    scores, bank = matrices()
    found = sinkhorn_scores(scores, bank, temperature=0.1, iterations=7)
    biases = sinkhorn(bank, temperature=0.1, iterations=7)
    torch.testing.assert_close(found, loop(scores, lambda i, j: scores[i, j] + biases.columns[j]))
    loose = sinkhorn_scores(scores, bank, temperature=0.1, iterations=100, tolerance=10.0)
    assert torch.equal(loose, sinkhorn_scores(scores, bank, temperature=0.1, iterations=1))


def test_inverted_softmax_is_the_logarithm_of_its_published_form():
    scores, bank = matrices()

    def published(i, j):
        return (scores[i, j] / 0.1).exp() / sum((g / 0.1).exp() for g in bank[:, j])

    found = inverted_softmax(scores, bank, temperature=0.1)
    torch.testing.assert_close((found / 0.1).exp(), loop(scores, published))


def test_inverted_softmax_ranks_as_sinkhorn_without_iterations():
    scores, bank = matrices()
    zero = sinkhorn_scores(scores, bank, temperature=0.1, iterations=0)
    shift = zero - inverted_softmax(scores, bank, temperature=0.1)
    torch.testing.assert_close(shift, shift[0, 0].expand_as(shift))


@pytest.mark.parametrize('k', [1, 2, 5])
@pytest.mark.parametrize('entries', [1, 20, 10**6])
def test_activation_set_holds_the_best_of_some_bank_query(k, entries):
    _, bank = matrices(bank=4, gallery=11)
    expected = {j for row in bank.tolist() for j in sorted(range(11), key=lambda j: -row[j])[:k]}
    found = activation_set(as_tiles(bank, entries=entries), neighbours=k)
    assert set(found.nonzero().flatten().tolist()) == expected
    assert k == 5 or len(expected) < 11


def test_qb_norm_normalises_only_who_falls_for_an_active_item():
    bank = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.3, 0.1]])  # item 0 is active
    scores = torch.tensor([[0.6, 0.5, 0.1], [0.5, 0.6, 0.1]])
    found = qb_norm(scores, bank, temperature=0.1)
    assert torch.equal(found[1], scores[1])
    assert torch.equal(found[0], inverted_softmax(scores, bank, temperature=0.1)[0])
    assert found[0].argmax() == 1  # away from the hub
    both = qb_norm(scores, bank, temperature=0.1, neighbours=2)
    assert torch.equal(both, inverted_softmax(scores, bank, temperature=0.1))


def test_dual_softmax_on_its_own_scores_is_its_published_form():
    scores, _ = matrices()
    found = dual_softmax(scores - 0.5, scores - 0.5, temperature=0.1)
    expected = (scores - 0.5) * ((scores - 0.5) / 0.1).softmax(0) * 6
    torch.testing.assert_close(found, expected)
    assert (expected < 0).any()


def test_dual_softmax_with_a_bank_is_its_published_form_up_to_a_factor_a_row():
    scores, bank = matrices()
    scores[1:3] += 1.0  # far above the bank

    def published(i, j):
        return scores[i, j] * (scores[i, j] / 0.1).exp() / (bank[:, j] / 0.1).exp().sum() * 9

    found, expected = dual_softmax(scores, bank, temperature=0.1), loop(scores, published)
    factor = (found / expected)[:, :1]
    torch.testing.assert_close(found, expected * factor)
    above = (expected / (9 * scores)).amax(1, keepdim=True)
    torch.testing.assert_close(factor, 1 / above.clamp(min=1))
    assert (above > 1).sum() == 2


def test_dual_softmax_does_not_overflow():
    scores, bank = (x.float() for x in matrices())
    found = dual_softmax(100 * scores + 500, 100 * bank, temperature=0.1)
    assert found.isfinite().all()
    expected = order(inverted_softmax(100 * scores + 500, 100 * bank, temperature=0.1))
    assert torch.equal(order(found)[:, 0], expected[:, 0])


@pytest.mark.parametrize('k', [1, 3])
def test_csls_is_twice_the_score_less_both_neighbourhoods(k):
    scores, bank = matrices()

    def mean_of_best(values):
        return sum(sorted(values.tolist())[-k:]) / k

    expected = loop(
        scores,
        lambda i, j: 2 * scores[i, j] - mean_of_best(scores[i]) - mean_of_best(bank[:, j]),
    )
    torch.testing.assert_close(csls(scores, bank, neighbours=k), expected)


@pytest.mark.parametrize('strength, share, k', [(0.5, 0.3, 3), (-0.2, 0.05, 1), (0.0, 1.0, 9)])
def test_local_scaling_takes_a_part_of_the_nearest_queries(strength, share, k):
    scores, bank = matrices()

    def mean_of_best(values):
        return sum(sorted(values.tolist())[-k:]) / k

    expected = loop(scores, lambda i, j: scores[i, j] - strength * mean_of_best(bank[:, j]))
    found = local_scaling(scores, bank, strength=strength, share=share)
    torch.testing.assert_close(found, expected)
    if strength == 0.5:  # as CSLS orders
        assert torch.equal(order(found), order(csls(scores, bank, neighbours=k)))


@pytest.mark.parametrize('k', [1, 4, 9])
def test_nnn_takes_a_number_of_queries(k):
    scores, bank = matrices()
    near = [sum(sorted(bank[:, j].tolist())[-k:]) / k for j in range(5)]
    expected = loop(scores, lambda i, j: scores[i, j] - 0.6 * near[j])
    torch.testing.assert_close(nnn(scores, bank, neighbours=k, alpha=0.6), expected)


def test_bad_nnn():
    scores, bank = matrices()
    with pytest.raises(ValueError, match='must be 1 to 9, the number of bank queries, not 10'):
        nnn(scores, bank, neighbours=10)
    with pytest.raises(ValueError, match='alpha must be finite'):
        nnn(scores, bank, neighbours=1, alpha=math.inf)


@pytest.mark.parametrize('first, strength', [(-0.3, 0.4), (0.4, -0.3), (-0.5, 0.0)])
@pytest.mark.parametrize('places', [1, 2, 5])
def test_hedged_scaling_begins_with_one_order_and_goes_on_with_the_other(first, strength, places):
    scores, bank = matrices(queries=40, gallery=5)
    orders = [
        order(local_scaling(scores, bank, strength=x, share=0.3)).tolist()
        for x in (first, strength)
    ]
    expected = [
        leading[:places] + [j for j in following if j not in leading[:places]]
        for leading, following in zip(*orders)
    ]
    found = hedged_scaling(scores, bank, first=first, strength=strength, places=places, share=0.3)
    assert order(found).tolist() == expected
    assert places == 5 or expected != orders[0] and expected != orders[1]


@pytest.mark.parametrize('scale', [1e-6, 1.0, 1e6])
@pytest.mark.parametrize('shift', [-1.0, 0.0, 1.0])
def test_hedged_scaling_has_a_strict_order_at_any_scale(scale, shift):
    scores, bank = (((x + 10 * shift) * scale).float() for x in matrices())
    found = hedged_scaling(scores, bank, first=-0.3, strength=0.4, places=3)
    top = found.sort(1, descending=True).values
    assert (top[:, :3] > top[:, 1:4]).all()


def test_hedged_scaling_takes_the_first_of_equals_and_no_more():
    scores = torch.tensor([[0.1, 0.5, 0.5, 0.4]])
    bank = torch.tensor([[0.2, 0.9, 0.9, 0.3], [0.3, 0.9, 0.9, 0.1]])
    found = hedged_scaling(scores, bank, first=-0.1, strength=1.0)
    assert found[0].argsort(descending=True, stable=True).tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize(
    'how, said',
    [
        (dict(first=0.1, strength=float('inf')), 'strength must be finite, not inf'),
        (dict(first=float('nan'), strength=0.1), 'must be finite, not nan'),
        (dict(first=0.1, strength=0.2, share=0), r'share must lie in \(0, 1\], not 0'),
        (dict(first=0.1, strength=0.2, places=0), 'places must be 1 or more, not 0'),
        (dict(first=0.1, strength=0.2, places=6), 'places must be 1 to 5, .* not 6'),
    ],
)
def test_bad_hedged_scaling(how, said):
    with pytest.raises(ValueError, match=said):
        hedged_scaling(*matrices(), **how)


@pytest.mark.parametrize(
    'how, said',
    [
        (dict(strength=0.1, share=0.0), r'share must lie in \(0, 1\], not 0'),
        (dict(strength=0.1, share=1.1), r'share must lie in \(0, 1\], not 1.1'),
        (dict(strength=float('nan')), 'must be finite, not nan'),
    ],
)
def test_bad_local_scaling(how, said):
    with pytest.raises(ValueError, match=said):
        local_scaling(*matrices(), **how)


# What holds of all of them.


@every_transform
def test_a_hub_loses_queries(transform):
    """Item 0 is close to everybody; raw, it takes the queries of the others."""
    own = 0.3 * torch.eye(4).repeat(3, 1)
    hub = torch.tensor([0.5, 0, 0, 0])
    noise = 0.02 * torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    bank, scores = own + hub + noise, own[:4] + hub
    assert scores.argmax(1).tolist() == [0, 0, 0, 0]
    assert transform(scores, bank).argmax(1).tolist() == [0, 1, 2, 3]


@every_transform
def test_a_bank_in_tiles_gives_the_same_scores(transform):
    scores, bank = matrices()
    whole = transform(scores, bank)
    for width in (1, 2, 3):
        torch.testing.assert_close(transform(scores, as_tiles(bank, entries=9 * width)), whole)


@every_transform
def test_a_bank_of_embeddings_is_never_made_as_a_whole(transform):
    generator = torch.Generator().manual_seed(0)
    queries, bank, gallery = (torch.randn(n, 4, generator=generator) for n in (6, 9, 12))
    inner, widest = inner_products(bank, gallery, entries=9 * 5), 0

    def columns(part):
        nonlocal widest
        widest = max(widest, part.stop - part.start)
        return inner.columns(part)

    found = transform(queries @ gallery.t(), Tiles(inner.shape, columns, inner.width))
    assert widest == 5
    torch.testing.assert_close(found, transform(queries @ gallery.t(), bank @ gallery.t()))


@every_transform
def test_a_query_does_not_depend_on_those_asked_with_it(transform):
    scores, bank = matrices()
    alone = torch.cat([transform(row[None], bank) for row in scores])
    torch.testing.assert_close(transform(scores, bank), alone)


@every_transform
def test_permuted_queries_items_and_bank_give_permuted_scores(transform):
    scores, bank = matrices()
    rows, columns = torch.tensor([5, 0, 3, 1, 2, 4]), torch.tensor([4, 2, 0, 1, 3])
    moved = transform(scores[rows][:, columns], bank.flip(0)[:, columns])
    torch.testing.assert_close(moved, transform(scores, bank)[rows][:, columns])


@every_transform
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_precision_is_computed_in_float32(transform, dtype):
    scores, bank = (x.to(dtype) for x in matrices())
    before = scores.clone(), bank.clone()
    found = transform(scores, bank)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(
        found.double(), transform(scores.double(), bank.double()), atol=1e-5, rtol=1e-4
    )
    assert torch.equal(scores, before[0]) and torch.equal(bank, before[1])  # left as they were


@pytest.mark.parametrize('temperature', [0.001, 0.01, 1.0, 10.0])
@pytest.mark.parametrize('name', ['sinkhorn_scores', 'inverted_softmax', 'dual_softmax', 'qb_norm'])
def test_every_temperature_is_finite(temperature, name):
    scores, bank = (x.half() for x in matrices())
    assert globals()[name](scores, bank, temperature=temperature).isfinite().all()


def test_a_model_s_temperature_is_taken_as_it_is():
    scores, bank = matrices()
    for function in (sinkhorn_scores, inverted_softmax, dual_softmax, qb_norm):
        found = function(scores, bank, temperature=torch.tensor(0.25))
        assert torch.equal(found, function(scores, bank, temperature=0.25))


# Bad input.


@every_transform
@pytest.mark.parametrize('value', [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize('name', ['scores', 'bank'])
def test_values_that_are_not_finite_are_named(transform, value, name):
    scores, bank = matrices()
    dict(scores=scores, bank=bank)[name][3, 4] = value
    with pytest.raises(ValueError, match=rf'^{name}\[3, 4\] is {value}, expected finite scores$'):
        transform(scores, as_tiles(bank, entries=20))


@every_transform
def test_a_bank_that_is_all_one_value_is_named(transform):
    scores, bank = matrices()
    message = r'{} is all one value \(0.25\): nothing to rank'
    tied = torch.cat([torch.full_like(scores[:1], 0.25), scores])
    torch.testing.assert_close(transform(tied[:1], bank), transform(tied, bank)[:1])
    with pytest.raises(ValueError, match=message.format(r'bank \[9, 5\]')):
        transform(scores, torch.full_like(bank, 0.25))


@every_transform
def test_an_empty_bank_or_gallery_is_named(transform):
    scores, bank = matrices()
    with pytest.raises(ValueError, match=r'bank \[0, 5\] has no queries'):
        transform(scores, bank[:0])
    with pytest.raises(ValueError, match=r'bank \[9, 0\] has no gallery items'):
        transform(scores[:, :0], bank[:, :0])


@every_transform
def test_a_bank_of_another_gallery_is_named(transform):
    scores, bank = matrices()
    with pytest.raises(ValueError, match='bank covers 4 gallery items, but the scores cover 5'):
        transform(scores, bank[:, :4])


@pytest.mark.parametrize('function', [sinkhorn_scores, inverted_softmax, dual_softmax, qb_norm])
@pytest.mark.parametrize('temperature', [0.0, -0.1, math.nan])
def test_temperatures_that_are_not_positive_are_named(function, temperature):
    with pytest.raises(ValueError, match=f'temperature must be positive.*, not {temperature}'):
        function(*matrices(), temperature=temperature)


def test_k_out_of_range_is_named():
    scores, bank = matrices()
    with pytest.raises(ValueError, match='must be 1 to 5, the number of gallery items, not 6'):
        qb_norm(scores, bank, temperature=0.1, neighbours=6)
    with pytest.raises(ValueError, match='must be 1 to 5, the number of gallery items, not 0'):
        activation_set(bank, neighbours=0)
    bank[3, 4] = torch.nan
    with pytest.raises(ValueError, match=r'scores\[3, 4\] is nan'):
        activation_set(bank, neighbours=1)
    _, bank = matrices()
    with pytest.raises(ValueError, match='must be 1 to 5, the number of gallery items, not 6'):
        csls(scores, bank, neighbours=6)
    with pytest.raises(ValueError, match='must be 1 to 9, the number of bank queries, not 10'):
        csls(scores, bank, neighbours=10)


def test_a_single_pair_is_ranked_without_complaint():
    one = torch.full((1, 1), 0.5)
    for transform in (TRANSFORMS['sinkhorn'], TRANSFORMS['inverted_softmax']):
        assert transform(one, one).shape == (1, 1)
