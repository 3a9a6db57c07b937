"""The metric of graded relevance: its keys, chance, ceiling and options."""

import doctest

import pytest
import torch

import mmvtr.evaluation.graded
from mmvtr.evaluation import RelevanceMetric, results_table
from mmvtr.evaluation.metric import evaluate
from mmvtr.functional.metrics.graded_relevance import graded_values
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation


@pytest.fixture
def relation():
    levels = torch.tensor([0, 0, 0.5, 1])
    draw = torch.randint(4, (14, 10), generator=torch.Generator().manual_seed(0))
    relevance = levels[draw].fill_diagonal_(1)
    relevance[10:, 0] = 1
    return Relation(torch.eye(14, 10).bool(), relevance=relevance)


@pytest.fixture
def scores():
    return torch.randn(14, 10, generator=torch.Generator().manual_seed(1))


def test_the_numbers(relation, scores):
    numbers = METRICS.build(dict(type='RelevanceMetric'))({'scores': scores}, relation)
    for direction, dim in (('t2v', 1), ('v2t', 0)):
        values = graded_values(scores, relation.relevance, dim=dim)
        for key, expected in zip(('nDCG', 'epic_mAP', 'mAP'), values):
            assert numbers[f'{direction}_{key}'] == pytest.approx(100 * float(expected.mean()))
    for key in ('nDCG', 'epic_mAP', 'mAP'):
        mean = (numbers[f't2v_{key}'] + numbers[f'v2t_{key}']) / 2
        assert numbers[f'avg_{key}'] == pytest.approx(mean)
    assert len(numbers) == 9


def test_each_direction_reads_its_own_scores(relation, scores):
    metric = RelevanceMetric()
    one, other = (metric({'scores': x}, relation) for x in (scores, -scores))
    both = metric({'scores': Directed(scores, -scores)}, relation)
    assert both['t2v_nDCG'] == one['t2v_nDCG'] and both['v2t_nDCG'] == other['v2t_nDCG']
    assert one['v2t_nDCG'] != other['v2t_nDCG']


@pytest.mark.parametrize('k, name', [('relevant', 'nDCG'), (3, 'nDCG3'), (None, 'nDCG_full')])
def test_depths_have_names(relation, scores, k, name):
    numbers = RelevanceMetric(measures=['nDCG'], k=k)({'scores': scores}, relation)
    assert list(numbers) == [f't2v_{name}', f'v2t_{name}', f'avg_{name}']
    expected = graded_values(scores, relation.relevance, k=k).ndcg.mean()
    assert numbers[f't2v_{name}'] == pytest.approx(100 * float(expected))


@pytest.mark.parametrize('without_match', ['left_out', 'zero'])
def test_chance_and_ceiling(relation, without_match):
    relation.relevance[3] = relation.relevance[3].clamp(max=0.5)
    relation.relevance[:, 7] = 0
    metric = RelevanceMetric(without_match=without_match)
    chance, ceiling = metric.chance(relation), metric.ceiling(relation)
    constant = metric({'scores': torch.zeros(14, 10)}, relation)
    perfect = metric({'scores': relation.relevance}, relation)
    assert chance == pytest.approx(constant) and ceiling == pytest.approx(perfect)
    assert chance.keys() == ceiling.keys() == constant.keys()
    share = 100 if without_match == 'left_out' else 100 * 13 / 14
    assert ceiling['t2v_mAP'] == pytest.approx(share)
    assert ceiling['v2t_nDCG'] == pytest.approx(100 if without_match == 'left_out' else 90)
    assert chance['t2v_nDCG'] < 80


def test_in_the_table(relation, scores):
    table = results_table(evaluate([RelevanceMetric(k=5)], {'scores': scores}, relation))
    assert 'nDCG@5' in table and 'epic_mAP' in table and 'avg_mAP' in table and '100.0' in table


def test_what_it_needs(relation, scores):
    with pytest.raises(ValueError, match='RelevanceMetric needs the relevance of the set'):
        RelevanceMetric()({'scores': scores}, Relation(relation.positives))
    half = relation._replace(relevance=relation.relevance / 2)
    with pytest.raises(ValueError, match='no query of t2v has a match to measure epic_mAP by'):
        RelevanceMetric()({'scores': scores}, half)
    assert 't2v_nDCG' in RelevanceMetric(measures=['nDCG'])({'scores': scores}, half)


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(measures=['recall']), r"measures must be some of \['nDCG', 'epic_mAP', 'mAP'\]"),
        (dict(measures=[]), 'measures must be some of'),
        (dict(k='all'), "k must be 'relevant', a positive int or None"),
        (dict(without_match='nan'), "without_match must be one of .*, not 'nan'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        RelevanceMetric(**options)


def test_the_examples():
    names = dict(torch=torch, Relation=Relation)
    assert doctest.testmod(mmvtr.evaluation.graded, extraglobs=names).failed == 0
