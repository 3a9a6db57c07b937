"""Metrics of incomplete judgments: ir-measures' values, and means over all orders of ties."""

import itertools

import ir_measures
import pytest
import torch
from ir_measures import AP, RR, Bpref, Judged, P, R, Rprec, ScoredDoc, Success

from mmvtr import functional as fn

QUERIES, ITEMS = 20, 15


@pytest.fixture(scope='module')
def drawn():
    """Scores with many ties, three grades, and nobody's judgment of half of the pairs."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 6, (QUERIES, ITEMS), generator=generator).float()
    grades = torch.randint(0, 3, (QUERIES, ITEMS), generator=generator).float()
    judged = torch.rand(QUERIES, ITEMS, generator=generator) < 0.5
    judged[0] = False
    judged[0, :2], grades[0, :2] = True, 2.0  # nothing that was judged wrong
    return scores, grades.masked_fill(~judged, torch.nan), judged


def ours(scores, upwards, relevant, judged, dim):
    """``upwards``: the scores with ties in the order of ids, as ir-measures' Judged breaks them."""
    known = fn.condensed(scores, judged, dim=dim)
    first = fn.ranks(scores, relevant, dim=dim)
    return {
        P(rel=1) @ 1: fn.precision_at(scores, relevant, 1, dim=dim),
        P(rel=1) @ 10: fn.precision_at(scores, relevant, 10, dim=dim),
        P(rel=1, judged_only=True) @ 5: fn.precision_at(known, relevant, 5, dim=dim),
        Judged @ 1: fn.precision_at(upwards, judged, 1, dim=dim),
        Judged @ 10: fn.precision_at(upwards, judged, 10, dim=dim),
        Bpref(rel=1): fn.bpref(scores, relevant, judged, dim=dim),
        AP(rel=1): fn.average_precision(scores, relevant, dim=dim),
        AP(rel=1, judged_only=True): fn.average_precision(known, relevant, dim=dim),
        Rprec(rel=1): fn.r_precision(scores, relevant, dim=dim),
        Rprec(rel=1, judged_only=True): fn.r_precision(known, relevant, dim=dim),
        RR(rel=1): 1 / first,
        Success(rel=1) @ 5: (first <= 5).double(),
        R(rel=1) @ 5: fn.precision_at(scores, relevant, 5, dim=dim) * 5 / relevant.sum(dim),
    }


@pytest.mark.parametrize('dim', [1, 0])
def test_the_values_of_ir_measures(drawn, dim):
    """Ties as trec_eval breaks them: ids in reverse; Judged has a rule of its own."""
    scores, grades, judged = (x if dim == 1 else x.t() for x in drawn)
    names = [f'i{i:02d}' for i in range(ITEMS)]
    place = torch.arange(ITEMS)[None]
    relevant = grades >= 1
    place = place if dim == 1 else place.t()
    downwards, upwards = (fn.untied(scores, sign * place, dim=dim) for sign in (1, -1))
    found = ours(downwards, upwards, relevant, judged, dim)
    by_query = drawn[0].tolist()
    run = [ScoredDoc(str(q), d, s) for q, row in enumerate(by_query) for d, s in zip(names, row)]
    qrels = [
        ir_measures.Qrel(str(q), names[i], int(drawn[1][q, i]))
        for q, i in drawn[2].nonzero().tolist()
    ]
    seen = 0
    for value in ir_measures.iter_calc(list(found), qrels, run):
        expected = value.value
        assert float(found[value.measure][int(value.query_id)]) == pytest.approx(expected, abs=1e-9)
        seen += 1
    assert seen == len(found) * QUERIES and len(found) == 13


def test_ties_are_the_mean_of_all_orders():
    scores = torch.tensor([[3.0, 2, 2, 2, 2, 1]])
    relevant = torch.tensor([[0, 1, 0, 0, 1, 1]]).bool()
    judged = torch.tensor([[1, 1, 1, 0, 1, 1]]).bool()
    measures = dict(
        precision=lambda s: fn.precision_at(s, relevant, 3),
        r_precision=lambda s: fn.r_precision(s, relevant),
        map_at_r=lambda s: fn.map_at_r(s, relevant),
        bpref=lambda s: fn.bpref(s, relevant, judged),
        condensed=lambda s: fn.average_precision(fn.condensed(s, judged), relevant),
    )
    for matrix in (scores, torch.zeros(1, 6)):
        orders = [
            fn.untied(matrix, torch.tensor([order])) for order in itertools.permutations(range(6))
        ]
        for name, measure in measures.items():
            mean = torch.stack([measure(order) for order in orders]).mean()
            torch.testing.assert_close(measure(matrix)[0], mean, msg=name)


def test_bpref_counts_no_more_wrong_ones_than_there_are_matches():
    wrong_first = torch.tensor([[5.0, 4, 3, 2]])
    relevant = torch.tensor([[0, 0, 0, 1]]).bool()
    assert fn.bpref(wrong_first, relevant, torch.ones(1, 4).bool()).item() == 0
    assert fn.bpref(wrong_first, relevant, relevant).item() == 1  # nothing was judged wrong


def test_map_at_r_is_by_hand():
    relevant = torch.tensor([[1, 0, 1, 1, 0]]).bool()
    value = fn.map_at_r(torch.tensor([[5.0, 4, 3, 2, 1]]), relevant)
    assert value.item() == pytest.approx((1 + 2 / 3) / 3)
    assert fn.map_at_r(torch.ones(1, 2), torch.zeros(1, 2).bool()).isnan().all()


def test_what_is_no_more_in_the_list(drawn):
    """Condensed lists equal lists from which the columns are taken."""
    scores, _, _ = drawn
    keep = torch.arange(ITEMS) % 3 > 0
    relevant = torch.rand(QUERIES, ITEMS, generator=torch.Generator().manual_seed(1)) < 0.3
    relevant &= keep
    shorter = fn.average_precision(scores[:, keep], relevant[:, keep])
    known = fn.condensed(scores, keep.expand(scores.shape))
    torch.testing.assert_close(
        fn.average_precision(known, relevant), shorter, equal_nan=True, rtol=1e-12, atol=0
    )


def test_optimistic_and_pessimistic_are_the_extremes(drawn):
    scores, grades, _ = drawn
    relevant = grades >= 1
    best, worst = (fn.untied(scores, sign * relevant.float()) for sign in (1, -1))
    low, mean, high = (fn.average_precision(s, relevant) for s in (worst, scores, best))
    assert (low <= mean + 1e-12).all() and (mean <= high + 1e-12).all() and (low < high).any()


def test_nan_is_refused():
    nan, mask = torch.tensor([[torch.nan]]), torch.ones(1, 1).bool()
    for function in (fn.r_precision, fn.map_at_r, fn.condensed, fn.untied):
        with pytest.raises(ValueError, match='NaN'):
            function(nan, mask)
