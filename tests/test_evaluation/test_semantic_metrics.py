"""Semantic precision, mAP and nDCG, and the detection of soft positives."""

import doctest

import pytest
import torch
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

import mmvtr.evaluation.semantic
import mmvtr.evaluation.soft_positive
from mmvtr.evaluation import SemanticMetric, SoftPositiveMetric
from mmvtr.registry import METRICS
from mmvtr.structures import Relation


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
    with pytest.raises(ValueError, match='measures: some of'):
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
    assert metric.chance(relation) == {'eta_auc': 50.0, 'scores_auc': 50.0}


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
    for module in (mmvtr.evaluation.semantic, mmvtr.evaluation.soft_positive):
        assert doctest.testmod(module, extraglobs=names).failed == 0
