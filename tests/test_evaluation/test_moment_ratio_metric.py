"""SumR by the moment-to-video ratio: buckets against a count by hand, what is left out, errors."""

import doctest

import pytest
import torch

import mmvtr.evaluation.moment_ratio
from mmvtr.evaluation import MomentRatioMetric, evaluate, results_table
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation

#: Text 4 has no moment, text 5 no video in the gallery.
RATIO = torch.tensor([0.1, 0.2, 0.25, 1.0, torch.nan, 0.3], dtype=torch.float64)
VIDEO = [0, 1, 2, 0, 1, None]


def relation(**kwargs):
    positives = torch.zeros(6, 3, dtype=torch.bool)
    for t, v in enumerate(VIDEO):
        if v is not None:
            positives[t, v] = True
    return Relation(positives, **{'moment_ratio': RATIO, **kwargs})


def sum_r(scores, texts, ks):
    """By loops: the sum of the percentages of texts with fewer than k better videos."""
    total = 0.0
    for k in ks:
        for t in texts:
            better = sum(bool(x > scores[t, VIDEO[t]]) for x in scores[t])
            total += 100 * (better < k) / len(texts)
    return total


def test_buckets_by_hand():
    torch.manual_seed(0)
    scores = torch.rand(6, 3)
    numbers = MomentRatioMetric(recall_at=(1, 2))({'scores': scores}, relation())
    assert numbers == pytest.approx(
        {
            't2v_SumR_0-0.2': sum_r(scores, [0, 1], (1, 2)),  # both edges: (0, 0.2]
            't2v_share_0-0.2': 50,
            't2v_SumR_0.2-0.4': sum_r(scores, [2], (1, 2)),
            't2v_share_0.2-0.4': 25,
            't2v_SumR_0.4-1': sum_r(scores, [3], (1, 2)),
            't2v_share_0.4-1': 25,
        }
    )


def test_texts_rank_by_the_scores_of_their_direction():
    torch.manual_seed(0)
    t2v, v2t = torch.rand(6, 3), torch.rand(6, 3)
    metric = MomentRatioMetric(recall_at=(1,))
    expected = metric({'scores': t2v}, relation())
    assert metric({'scores': Directed(t2v, v2t)}, relation()) == expected
    assert metric({'scores': v2t}, relation()) != expected


def test_chance_and_ceiling_have_the_same_keys():
    known = relation()
    known = known._replace(truth=known.positives.clone())
    report = evaluate([MomentRatioMetric(recall_at=(1, 2))], {'scores': torch.rand(6, 3)}, known)
    assert report.values.keys() == report.chance.keys() == report.ceiling.keys()
    assert report.chance['moment_ratio/t2v_SumR_0-0.2'] == pytest.approx(100)
    assert report.ceiling['moment_ratio/t2v_SumR_0.4-1'] == pytest.approx(200)
    assert 'moment_ratio  SumR_0-0.2' in results_table(report)
    assert MomentRatioMetric().ceiling(relation()) == {}


def test_nothing_is_said_of_what_is_not_known():
    scores = {'scores': torch.rand(6, 3)}
    assert MomentRatioMetric()(scores, relation(moment_ratio=None)) == {}
    assert MomentRatioMetric()(scores, relation(moment_ratio=torch.full((6,), torch.nan))) == {}
    long = MomentRatioMetric()(scores, relation(moment_ratio=torch.full((6,), 0.9)))
    assert list(long) == ['t2v_SumR_0.4-1', 't2v_share_0.4-1'] and long['t2v_share_0.4-1'] == 100


@pytest.mark.parametrize('edges', [(0.4, 0.2), (0.0, 0.5), (0.5, 1.0), (0.5, 0.5)])
def test_edges(edges):
    with pytest.raises(ValueError, match='edges must increase between 0 and 1, got'):
        METRICS.build(dict(type='MomentRatioMetric', edges=edges))


def test_the_example():
    names = dict(torch=torch, Relation=Relation)
    result = doctest.testmod(mmvtr.evaluation.moment_ratio, extraglobs=names)
    assert result.failed == 0 and result.attempted > 0
