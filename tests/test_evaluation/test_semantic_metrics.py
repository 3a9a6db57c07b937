"""Semantic precision, mAP and nDCG, and the detection of soft positives."""

import doctest

import pytest
import torch
from sklearn.metrics import (
    average_precision_score,
    ndcg_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

import mmvtr.evaluation.retrieval
import mmvtr.evaluation.soft_positive
from mmvtr.evaluation import SemanticMetric, SoftPositiveMetric
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation


@pytest.fixture
def relation():
    generator = torch.Generator().manual_seed(0)
    positives = torch.eye(10, dtype=torch.bool).repeat_interleave(2, 0)
    truth = positives | (torch.rand(20, 10, generator=generator) < 0.2)
    relevance = truth * (0.5 + 0.5 * torch.rand(20, 10, generator=generator))
    return Relation(positives, truth, relevance)


@pytest.fixture
def scores():
    return torch.randn(20, 10, generator=torch.Generator().manual_seed(1))


def test_semantic_numbers_are_sklearns(relation, scores):
    numbers = METRICS.build(dict(type='SemanticMetric', k=5))({'scores': scores}, relation)
    for direction, s, t, r in (
        ('t2v', scores, relation.truth, relation.relevance),
        ('v2t', scores.t(), relation.truth.t(), relation.relevance.t()),
    ):
        s, t, r = s.numpy(), t.numpy(), r.numpy()
        first = t[range(len(s)), s.argmax(1)].mean()
        mean_ap = sum(map(average_precision_score, t, s)) / len(s)
        assert numbers[f'{direction}_P1'] == pytest.approx(100 * first)
        assert numbers[f'{direction}_mAP'] == pytest.approx(100 * mean_ap)
        assert numbers[f'{direction}_nDCG5'] == pytest.approx(100 * ndcg_score(r, s, k=5))


def test_semantic_chance_and_ceiling(relation):
    metric = SemanticMetric()
    ceiling, chance = metric.ceiling(relation), metric.chance(relation)
    assert chance.keys() == ceiling.keys()
    assert list(ceiling.values()) == pytest.approx([100] * 6)
    assert chance['t2v_P1'] == pytest.approx(100 * float(relation.truth.double().mean()))
    torch.manual_seed(0)
    draws = [metric({'scores': torch.rand(20, 10)}, relation) for _ in range(100)]
    for key, value in chance.items():
        assert value == pytest.approx(sum(x[key] for x in draws) / 100, rel=0.1)


def test_semantic_measures_need_what_they_measure_against(relation, scores):
    plain = Relation(relation.positives)
    with pytest.raises(ValueError, match='P1 needs the truth of the set'):
        SemanticMetric()({'scores': scores}, plain)
    graded = plain._replace(relevance=relation.relevance)
    numbers = SemanticMetric(measures=('nDCG',), k=3)({'scores': scores}, graded)
    assert numbers.keys() == {'t2v_nDCG3', 'v2t_nDCG3'}
    with pytest.raises(ValueError, match='nDCG needs the relevance'):
        SemanticMetric(measures=('nDCG',))({'scores': scores}, plain)
    with pytest.raises(ValueError, match='measures must be some of'):
        SemanticMetric(measures=('recall',))


def test_soft_positive_auc_is_sklearns(relation, scores):
    eta = torch.rand(20, 10, generator=torch.Generator().manual_seed(2))
    metric = METRICS.build(dict(type='SoftPositiveMetric'))
    assert metric.reads == ('eta', 'scores')
    numbers = metric({'eta': eta, 'scores': scores}, relation)
    judged = ~relation.positives
    soft = relation.truth[judged]
    assert numbers['eta_auc'] == pytest.approx(100 * roc_auc_score(soft, -eta[judged]))
    assert numbers['scores_auc'] == pytest.approx(100 * roc_auc_score(soft, scores[judged]))
    assert numbers['eta_mean_positives'] == pytest.approx(float(eta[relation.positives].mean()))
    assert numbers['eta_mean_soft'] == pytest.approx(float(eta[judged][soft].mean()))
    assert numbers['eta_mean_negatives'] == pytest.approx(float(eta[judged][~soft].mean()))
    share = 100 * soft.double().mean().item()
    chance, ceiling = metric.chance(relation), metric.ceiling(relation)
    for name in ('eta', 'scores'):
        assert chance.pop(f'{name}_auc') == 50 and ceiling.pop(f'{name}_auc') == 100
        assert chance.pop(f'{name}_breakeven') == pytest.approx(share)
        assert ceiling.pop(f'{name}_breakeven') == 100
    assert chance == ceiling == {}


def test_breakeven_flags_the_best_candidates(relation, scores):
    """Against a loop over the sorted pairs; ties in expectation, by drawing their order."""
    ours = SoftPositiveMetric(reads=('scores',))
    judged = ~relation.positives
    soft = relation.truth[judged]
    count = int(soft.sum())
    pairs = sorted(zip(scores[judged].tolist(), soft.tolist()), reverse=True)
    hits = sum(is_soft for _, is_soft in pairs[:count])
    numbers = ours({'scores': scores}, relation)
    assert 0 < hits < count
    assert numbers['scores_breakeven'] == pytest.approx(100 * hits / count)
    assert ours({'scores': relation.truth.float()}, relation)['scores_breakeven'] == 100
    tied = scores.round()
    draws = []
    for seed in range(300):
        noise = torch.rand(20, 10, generator=torch.Generator().manual_seed(seed)) / 10
        draws.append(ours({'scores': tied + noise}, relation)['scores_breakeven'])
    assert max(draws) > min(draws)
    expected = ours({'scores': tied}, relation)['scores_breakeven']
    assert expected == pytest.approx(sum(draws) / 300, rel=0.02)
    constant = ours({'scores': torch.zeros(20, 10)}, relation)['scores_breakeven']
    assert constant == pytest.approx(ours.chance(relation)['scores_breakeven'])


@pytest.mark.parametrize('threshold', [0.5, 0.2])
def test_precision_and_recall_of_what_is_flagged(relation, scores, threshold):
    eta = torch.rand(20, 10, generator=torch.Generator().manual_seed(2))
    matrices = {'eta': eta, 'scores': scores}
    numbers = SoftPositiveMetric(threshold=threshold)(matrices, relation)
    judged = ~relation.positives
    flagged, soft = (eta[judged] < threshold).numpy(), relation.truth[judged].numpy()
    assert numbers['eta_precision'] == pytest.approx(100 * precision_score(soft, flagged))
    assert numbers['eta_recall'] == pytest.approx(100 * recall_score(soft, flagged))
    assert numbers['eta_breakeven'] == pytest.approx(
        SoftPositiveMetric(low_is_soft=())({**matrices, 'eta': 1 - eta}, relation)['eta_breakeven']
    )
    assert not {'scores_precision', 'scores_recall'} & numbers.keys()
    nothing = SoftPositiveMetric(threshold=0.0)(matrices, relation)
    assert nothing['eta_recall'] == 0 and 'eta_precision' not in nothing


def test_scores_that_differ_by_direction_give_the_mean(relation, scores):
    metric = SoftPositiveMetric(reads=('scores',))
    other = torch.randn(20, 10, generator=torch.Generator().manual_seed(5))
    alone = [metric({'scores': s}, relation) for s in (scores, other)]
    both = metric({'scores': Directed(scores, other)}, relation)
    assert both.keys() == alone[0].keys() and alone[0]['scores_auc'] != alone[1]['scores_auc']
    for key, value in both.items():
        assert value == pytest.approx((alone[0][key] + alone[1][key]) / 2)


def test_soft_positives_must_exist_and_be_known(relation, scores):
    metric = SoftPositiveMetric(reads=('scores',))
    with pytest.raises(ValueError, match='needs the truth'):
        metric({'scores': scores}, Relation(relation.positives))
    with pytest.raises(ValueError, match='no soft positives'):
        metric({'scores': scores}, relation._replace(truth=relation.positives))
    with pytest.raises(KeyError, match="reads the matrix 'eta'"):
        SoftPositiveMetric()({'scores': scores}, relation)


def test_the_examples():
    names = dict(torch=torch, Relation=Relation)
    for module in (mmvtr.evaluation.retrieval, mmvtr.evaluation.soft_positive):
        assert doctest.testmod(module, extraglobs=names).failed == 0
