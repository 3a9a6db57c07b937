"""Mass, normalisation error, k-occurrence, skewness and error rates against loops in float64."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch

from mmvtr.functional.metrics import hubness as fn
from mmvtr.functional.metrics.ranks import ranks, recall_at

TEMPERATURE = 0.3


def draw(shape=(24, 15), seed=0, levels=None):
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return scores if levels is None else (levels * scores).round() / levels


def some_positives(shape=(24, 15), seed=1):
    """One to three videos a text; text 3 has none."""
    positives = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.1
    positives[torch.arange(shape[0]), torch.arange(shape[0]) % shape[1]] = True
    positives[3] = False
    return positives


def as_queries(x, dim):
    """Float64 or bool rows of queries."""
    x = x if dim == 1 else x.t()
    return x.numpy() if x.dtype == torch.bool else x.double().numpy()


def mass_by_loops(scores, temperature):
    mass = np.zeros(scores.shape[1])
    for row in scores:
        weights = np.exp((row - row.max()) / temperature)
        mass += weights / weights.sum()
    return mass


def errors_by_loops(scores, match, temperature, edges):
    """Counts one query and one item at a time, over all orders of tied candidates."""
    relative = mass_by_loops(scores, temperature) * scores.shape[1] / len(scores)
    own, missed, first, wrong = np.zeros((4, scores.shape[1]))
    for row, is_match in zip(scores, match):
        if not is_match.any():
            continue
        for item in np.flatnonzero(is_match):
            rivals = [j for j in range(len(row)) if j == item or not is_match[j]]
            best = [j for j in rivals if row[j] == max(row[rivals])]
            own[item] += 1
            missed[item] += 1 - (item in best) / len(best)
        best = np.flatnonzero(row == row.max())
        first[best] += 1 / len(best)
        wrong[best] += ~is_match[best] / len(best)
    results = []
    for low, high in itertools.pairwise([0, *edges, np.inf]):
        inside = (low <= relative) & (relative < high)
        with np.errstate(invalid='ignore'):
            results.append(
                (
                    relative[inside].sum() / inside.sum(),
                    inside.sum(),
                    missed[inside].sum() / own[inside].sum(),
                    wrong[inside].sum() / first[inside].sum(),
                )
            )
    return zip(*results)


@pytest.fixture(params=[2**20, 40], ids=['whole', 'chunked'])
def tile(request, monkeypatch):
    monkeypatch.setattr('mmvtr.functional.metrics.ranks.TILE', request.param)


@pytest.mark.parametrize('dim', [1, 0])
@pytest.mark.parametrize('temperature', [0.001, TEMPERATURE, 10])
def test_mass_is_the_sum_of_softmax(tile, dim, temperature):
    scores = draw()
    mass = fn.retrieval_mass(scores, temperature=temperature, dim=dim)
    expected = mass_by_loops(as_queries(scores, dim), temperature)
    rtol = 1e-3 if temperature < 0.01 else 1e-5  # float32 scores of a thousand temperatures
    np.testing.assert_allclose(mass, expected, rtol=rtol, atol=1e-12)
    assert float(mass.sum()) == pytest.approx(scores.shape[1 - dim], rel=1e-6)
    again = fn.retrieval_mass(scores, temperature=torch.tensor(temperature), dim=dim)
    torch.testing.assert_close(again, mass, rtol=1e-6, atol=1e-9)


def test_half_precision_is_computed_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        scores = draw().to(dtype)
        mass = fn.retrieval_mass(scores, temperature=0.01)
        assert torch.equal(mass, fn.retrieval_mass(scores.float(), temperature=0.01))


@pytest.mark.parametrize('dim', [1, 0])
def test_normalisation_error_is_of_the_papers_equation(dim):
    square = draw((15, 15))
    mass = mass_by_loops(as_queries(square, dim), TEMPERATURE)
    error = fn.normalisation_error(square, temperature=TEMPERATURE, dim=dim)
    assert float(error) == pytest.approx(np.abs(1 - mass).mean(), rel=1e-6)


def test_twice_the_queries_do_not_change_the_error():
    scores = draw()
    once, twice = (
        fn.normalisation_error(x, temperature=TEMPERATURE) for x in (scores, scores.repeat(2, 1))
    )
    assert float(twice) == pytest.approx(float(once))
    hub = torch.tensor([[9.0, 0.0, 0.0, 0.0]]).expand(7, 4)  # one of four items gets everything
    assert float(fn.normalisation_error(hub, temperature=0.1)) == pytest.approx(3 / 2)


@pytest.mark.parametrize('dim', [1, 0])
@pytest.mark.parametrize('k', [1, 4, 15])
def test_k_occurrence_counts(tile, dim, k):
    scores = draw()
    best = np.argsort(-as_queries(scores, dim), axis=1)[:, :k]
    expected = np.bincount(best.flatten(), minlength=scores.shape[dim])
    np.testing.assert_array_equal(fn.k_occurrence(scores, k=k, dim=dim), expected)


@pytest.mark.parametrize('k', [1, 2, 3])
def test_k_occurrence_of_ties_is_the_mean_over_all_orders(k):
    scores = draw((6, 4), levels=1)
    expected = np.zeros(4)
    orders = list(itertools.permutations(range(4)))
    for row, order in itertools.product(scores.numpy(), orders):
        expected[np.lexsort((order, -row))[:k]] += 1 / len(orders)
    np.testing.assert_allclose(fn.k_occurrence(scores, k=k), expected, rtol=1e-12)


def test_skewness_is_scipys():
    x = draw((50, 1)).flatten() ** 2
    for scale in (1, 1e-150, 1e150):
        mine = fn.skewness(x.double() * scale)
        assert float(mine) == pytest.approx(scipy.stats.skew(x.double().numpy()), rel=1e-9)
    for same in (0.0, 7.0, 1 / 3):
        assert float(fn.skewness(torch.full((11,), same))) == 0
    assert float(fn.skewness(torch.tensor([0, 0, 0, 4]))) > 1  # integers, too


def test_a_constant_matrix_is_even():
    constant = torch.full((10, 7), 0.3)
    for dim in (1, 0):
        error = fn.normalisation_error(constant, temperature=0.01, dim=dim)
        assert float(error) == pytest.approx(0, abs=1e-6)
        assert float(fn.skewness(fn.k_occurrence(constant, k=3, dim=dim))) == 0


@pytest.mark.parametrize('dim', [1, 0])
@pytest.mark.parametrize('levels', [None, 1])
@pytest.mark.parametrize('edges', [(), (1.0,), (0.25, 0.5, 1.0, 2.0, 50.0)])
def test_error_rates_are_counted(tile, dim, levels, edges):
    scores, positives = draw(levels=levels), some_positives()
    rates = fn.error_rates_by_mass(scores, positives, temperature=TEMPERATURE, dim=dim, edges=edges)
    expected = errors_by_loops(
        as_queries(scores, dim), as_queries(positives, dim), TEMPERATURE, edges
    )
    for mine, theirs in zip(rates, expected):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    assert int(rates.items.sum()) == scores.shape[dim]


def test_both_rates_of_pairs_decompose_what_recall_misses():
    scores, positives = draw((15, 15)), torch.eye(15).bool()
    for dim in (1, 0):
        rates = fn.error_rates_by_mass(scores, positives, temperature=1.0, dim=dim, edges=())
        missed = 1 - float(recall_at(ranks(scores, positives, dim=dim), 1))
        assert float(rates.false_negatives) == pytest.approx(missed)
        assert float(rates.false_positives) == pytest.approx(missed)


def test_a_hub_and_those_it_hides():
    """Texts 0 to 3 find video 0; video 3 has no text."""
    scores = torch.tensor([[3.0, 0, 0, 0], [2, 1, 0, 0], [2, 0, 1, 0], [3, 0, 0, 1], [0, 0, 4, 0]])
    positives = torch.zeros(5, 4, dtype=torch.bool)
    positives[torch.arange(5), torch.tensor([0, 1, 2, 0, 2])] = True
    rates = fn.error_rates_by_mass(scores, positives, temperature=0.5)
    assert rates.items.tolist() == [3, 1]  # over-represented: the hub alone
    assert rates.false_negatives.tolist() == pytest.approx([2 / 3, 0])
    assert rates.false_positives.tolist() == pytest.approx([0, 2 / 4])


def test_a_querys_other_matches_never_count_against_an_item():
    """Video 0 asks for its captions 0 and 1: one of them is second, after the other."""
    scores, positives = torch.tensor([[0.9], [0.8], [0.1]]), torch.tensor([[1], [1], [0]]).bool()
    rates = fn.error_rates_by_mass(scores, positives, temperature=1.0, dim=0, edges=())
    assert (rates.false_negatives.item(), rates.false_positives.item()) == (0, 0)


@pytest.mark.parametrize(
    'call',
    [
        lambda s: fn.retrieval_mass(s, temperature=1.0),
        lambda s: fn.normalisation_error(s, temperature=1.0, dim=0),
        lambda s: fn.k_occurrence(s, k=1),
        lambda s: fn.error_rates_by_mass(s, torch.ones_like(s).bool(), temperature=1.0),
    ],
)
def test_bad_scores_are_named(call):
    for bad in (torch.nan, torch.inf, -torch.inf):
        scores = draw()
        scores[2, 7] = bad
        with pytest.raises(ValueError, match=rf'scores\[2, 7\] is {bad}'):
            call(scores)
    for shape in ((5,), (3, 0)):
        with pytest.raises(ValueError, match=r'must be \[texts, videos\]'):
            call(torch.zeros(shape))


@pytest.mark.parametrize('temperature', [0.0, -1.0, float('nan')])
def test_temperature_is_positive(temperature):
    with pytest.raises(ValueError, match='temperature must be positive, not'):
        fn.retrieval_mass(draw(), temperature=temperature)


def test_bad_arguments_are_named():
    scores = draw()
    for k in (0, 16):
        with pytest.raises(ValueError, match=f'k must be 1 to 15, the gallery, not {k}'):
            fn.k_occurrence(scores, k=k)
    assert len(fn.k_occurrence(scores, k=16, dim=0)) == 24
    with pytest.raises(ValueError, match='skewness expects one or more values, all finite'):
        fn.skewness(torch.empty(0))
    with pytest.raises(ValueError, match=r'scores \[24, 15\] and positives \[24, 14\] differ'):
        fn.error_rates_by_mass(scores, some_positives()[:, 1:], temperature=1.0)
    with pytest.raises(ValueError, match=r'edges must increase: \[1.0, 1.0\]'):
        fn.error_rates_by_mass(scores, some_positives(), temperature=1.0, edges=(1.0, 1.0))


# -- general queries ---------------------------------------------------------------------------


@pytest.mark.parametrize('dim', [0, 1])
def test_generality_is_the_perplexity_of_a_query(dim):
    scores = draw()
    found = fn.generality(scores, temperature=TEMPERATURE, dim=dim)
    for row, value in zip(as_queries(scores, dim), found):
        weights = np.exp((row - row.max()) / TEMPERATURE)
        expected = np.exp(scipy.stats.entropy(weights))
        assert float(value) == pytest.approx(expected, rel=1e-5)
    assert found.dtype == torch.float64 and len(found) == scores.shape[1 - dim]


def test_generality_at_its_ends_and_of_bad_input():
    same = fn.generality(torch.zeros(3, 7), temperature=0.01)
    torch.testing.assert_close(same, torch.full((3,), 7.0, dtype=torch.float64))
    sharp = fn.generality(torch.eye(4) * 1e4, temperature=0.01)
    torch.testing.assert_close(sharp, torch.ones(4, dtype=torch.float64))
    with pytest.raises(ValueError, match='temperature must be positive, not 0'):
        fn.generality(torch.zeros(3, 7), temperature=0)
    with pytest.raises(ValueError, match='none of them 0'):
        fn.generality(torch.zeros(3, 0), temperature=1)
    with pytest.raises(ValueError, match='nan'):
        fn.generality(torch.tensor([[0.0, torch.nan]]), temperature=1)
