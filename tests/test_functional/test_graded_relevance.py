"""nDCG, EPIC's mAP and AP of graded relevance: loops, all orders of ties, golden files."""

import ast
import csv
import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from mmvtr.functional.metrics.graded_relevance import (
    graded_chance,
    graded_values,
    mean_over_queries,
)
from mmvtr.functional.metrics.relevance import average_precision, ndcg_at_k

LEVELS = torch.tensor([0, 0, 0, 0.25, 0.5, 1])


@pytest.fixture
def relevance():
    draw = torch.randint(len(LEVELS), (12, 9), generator=torch.Generator().manual_seed(0))
    return LEVELS[draw]


@pytest.fixture
def scores():
    return torch.randn(12, 9, generator=torch.Generator().manual_seed(1))


def loop_values(gains, k):
    """(nDCG, EPIC's AP, AP) of one query, its relevances in the order of the ranking."""
    count = {'relevant': sum(g > 0 for g in gains), None: len(gains)}.get(k, k)
    dcg, best = (
        sum(g / math.log2(i + 2) for i, g in enumerate(order[:count]))
        for order in (gains, sorted(gains, reverse=True))
    )
    hits = [i for i, g in enumerate(gains) if g == 1]
    running = [sum(gains[: i + 1]) / (i + 1) for i in hits]
    exact = [sum(g == 1 for g in gains[: i + 1]) / (i + 1) for i in hits]
    return (
        dcg / best if best else math.nan,
        *(sum(x) / len(hits) if hits else math.nan for x in (running, exact)),
    )


@pytest.mark.parametrize('k', ['relevant', 3, 50, None])
@pytest.mark.parametrize('dim', [0, 1])
def test_values_are_those_of_a_loop(scores, relevance, k, dim):
    relevance[4], relevance[:, 2] = 0, 0
    pairs = zip(scores, relevance) if dim == 1 else zip(scores.t(), relevance.t())
    expected = [loop_values(r[(-s).argsort()].double().tolist(), k) for s, r in pairs]
    found = graded_values(scores, relevance, k=k, dim=dim)
    np.testing.assert_allclose(torch.stack(list(found), 1), expected, rtol=1e-12)
    assert {x.dtype for x in found} == {torch.float64}
    assert found.ndcg.isnan().nonzero().flatten().tolist() == [4 if dim == 1 else 2]


def test_standard_measures_are_those_of_the_neighbours(scores, relevance):
    found = graded_values(scores, relevance, k=4)
    np.testing.assert_array_equal(found.ap, average_precision(scores, relevance == 1))
    assert torch.equal(found.ndcg, ndcg_at_k(scores, relevance, k=4))
    hits = relevance == 1
    expected = [average_precision_score(h, s) for h, s in zip(hits, scores) if h.any()]
    np.testing.assert_allclose(found.ap[hits.any(1)], expected)
    assert (found.epic_ap >= found.ap)[hits.any(1)].all() and (found.epic_ap > found.ap).any()


def test_half_precision_relevance(scores, relevance):
    """The planted corpus keeps its relevance in float16."""
    for found, expected in zip(
        graded_values(scores, relevance.half()), graded_values(scores, relevance)
    ):
        assert torch.equal(found.nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize('k', ['relevant', 2, None])
@pytest.mark.parametrize('levels', [1, 2, 3])
def test_ties_get_the_mean_over_all_orders(levels, k):
    gains = torch.tensor([0.5, 0, 1, 0, 0.25, 1])
    scores = torch.randint(levels, (6,), generator=torch.Generator().manual_seed(levels)).float()
    orders = torch.tensor(list(itertools.permutations(range(6)))).double()
    all_orders = graded_values(1000 * scores + orders, gains.expand(len(orders), -1), k=k)
    for found, expected in zip(graded_values(scores[None], gains[None], k=k), all_orders):
        assert float(found) == pytest.approx(float(expected.mean()), rel=1e-12)


@pytest.mark.parametrize('k', ['relevant', 3, None])
@pytest.mark.parametrize('dim', [0, 1])
def test_chance_is_the_value_of_a_constant_matrix(relevance, k, dim):
    relevance[4] = 0
    constant = graded_values(torch.zeros(12, 9), relevance, k=k, dim=dim)
    for found, expected in zip(graded_chance(relevance, k=k, dim=dim), constant):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_chance_is_the_mean_of_random_rankings(relevance):
    torch.manual_seed(0)
    draws = [graded_values(torch.rand(12, 9), relevance) for _ in range(2000)]
    for field, chance in enumerate(graded_chance(relevance)):
        drawn = torch.stack([draw[field] for draw in draws])
        error = drawn.std(0) / len(draws) ** 0.5
        assert (chance.isnan() == drawn[0].isnan()).all()
        assert ((drawn.mean(0) - chance).abs().nan_to_num() <= 4 * error.nan_to_num() + 1e-12).all()


def test_a_single_candidate():
    relevance = torch.tensor([[1.0], [0.5]])
    for found in (graded_values(torch.zeros(2, 1), relevance), graded_chance(relevance)):
        assert found.ndcg.tolist() == [1, 1] and found.epic_ap.tolist()[0] == 1
        assert found.ap.isnan().tolist() == [False, True]


def test_queries_without_a_match_are_left_out_or_zero():
    values = torch.tensor([0.5, torch.nan, 1.0])
    assert mean_over_queries(values, without_match='left_out') == 0.75
    assert mean_over_queries(values, without_match='zero') == 0.5
    assert mean_over_queries(values[1:2], without_match='left_out').isnan()


@pytest.mark.parametrize('dim', [0, 1])
def test_chunks_do_not_change_anything(scores, relevance, dim, monkeypatch):
    whole = graded_values(scores, relevance, dim=dim), graded_chance(relevance, dim=dim)
    monkeypatch.setattr('mmvtr.functional.metrics.ranks.TILE', 30)
    parts = graded_values(scores, relevance, dim=dim), graded_chance(relevance, dim=dim)
    for one, other in zip(itertools.chain(*whole), itertools.chain(*parts)):
        assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1))


def test_bad_input(scores, relevance):
    with pytest.raises(ValueError, match=r'scores \[12, 8\] and relevance \[12, 9\] differ'):
        graded_values(scores[:, :8], relevance)
    scores[2, 7] = torch.nan
    with pytest.raises(ValueError, match=r'scores\[2, 7\] is NaN'):
        graded_values(scores, relevance)
    for k in (0, 'all', 2.5):
        with pytest.raises(
            ValueError, match=f"k must be 'relevant', a positive int or None.*not {k!r}"
        ):
            graded_chance(relevance, k=k)


def test_the_official_numbers(shared):
    """The evaluation code of EPIC-KITCHENS-100, and RANP's rule for queries without a match."""
    golden = np.load(shared / 'golden/epic_ndcg_map.npz', allow_pickle=False)
    sim, rel = (torch.from_numpy(golden[name]).t() for name in ('sim', 'rel'))  # texts are rows
    for direction, dim in (('t2v', 1), ('v2t', 0)):
        found = graded_values(sim, rel, dim=dim)
        expected = golden[f'{direction}_nDCG_per_query']
        np.testing.assert_allclose(found.ndcg, expected, atol=1e-5)
        for values, name in ((found.ndcg, 'nDCG'), (found.epic_ap, 'mAP')):
            zero = mean_over_queries(values, without_match='zero')
            assert float(zero) == pytest.approx(float(golden[f'{direction}_{name}_ranp']), abs=1e-5)
        assert_same(found.ndcg.mean(), golden[f'{direction}_nDCG'])
        assert_same(found.epic_ap.mean(), golden[f'{direction}_mAP_jpose'])
    zero_row = graded_values(sim, torch.from_numpy(golden['rel_zero_row3']).t(), dim=0)
    assert zero_row.ndcg.isnan().nonzero().flatten().tolist() == [3]
    for values, name in ((zero_row.ndcg, 'nDCG'), (zero_row.epic_ap, 'mAP')):
        assert_same(values.mean(), golden[f'zero_row_{name}_jpose'])
        zero = mean_over_queries(values, without_match='zero')
        assert_same(zero, golden[f'zero_row_{name}_ranp'])


def assert_same(found, expected):
    np.testing.assert_allclose(float(found), float(expected), atol=1e-5)


@pytest.mark.nightly
def test_random_scores_on_the_real_matrix(shared):
    """Chance of EPIC-KITCHENS-100's test set is 10.95 / 10.80 nDCG and 5.58 / 5.68 mAP."""
    relevance = epic_relevance(shared / 'data/EPIC100/retrieval_annotations')
    assert relevance.shape == (3842, 9668)
    assert float((relevance == 1).double().mean()) == pytest.approx(0.00168, abs=5e-6)
    for dim, ndcg, epic in ((1, 10.95, 5.58), (0, 10.80, 5.68)):
        chance = graded_chance(relevance, dim=dim)
        assert 100 * float(chance.ndcg.mean()) == pytest.approx(ndcg, abs=0.02)
        assert 100 * float(chance.epic_ap.mean()) == pytest.approx(epic, abs=0.02)
    some = relevance[::20]
    scores = torch.rand(some.shape, generator=torch.Generator().manual_seed(0))
    found, chance = graded_values(scores, some), graded_chance(some)
    for values, expected in zip(found[:2], chance):
        assert float(values.mean()) == pytest.approx(float(expected.mean()), rel=0.05)


def epic_relevance(folder):
    """float32 [texts, clips]: mean of the IoU of verb classes and of noun classes."""
    with open(folder / 'EPIC_100_retrieval_test.csv') as file:
        clips = list(csv.DictReader(file))
    with open(folder / 'EPIC_100_retrieval_test_sentence.csv') as file:
        row_of = {clip['narration_id']: row for row, clip in enumerate(clips)}
        texts = [row_of[row['narration_id']] for row in csv.DictReader(file)]
    verbs = torch.tensor([int(clip['verb_class']) for clip in clips])
    nouns = torch.zeros(len(clips), 300)
    for row, clip in enumerate(clips):
        nouns[row, ast.literal_eval(clip['all_noun_classes'])] = 1
    both = nouns[texts] @ nouns.t()
    either = nouns[texts].sum(1)[:, None] + nouns.sum(1) - both
    return (verbs[texts][:, None] == verbs).float() / 2 + both / either / 2
