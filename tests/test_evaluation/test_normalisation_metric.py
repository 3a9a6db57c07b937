"""The registered metric: keys, temperatures, directions, chance, errors."""

import doctest
import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

import mmvtr.evaluation.normalisation
from mmvtr.evaluation import NormalisationMetric, evaluate
from mmvtr.functional.metrics.hubness import error_rates_by_mass
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation

RATES = [f'{kind}_{group}' for kind in ('FN', 'FP') for group in ('under', 'over')]


@pytest.fixture
def relation():
    return Relation(torch.eye(12, dtype=torch.bool).repeat_interleave(2, 0))


@pytest.fixture
def scores():
    return torch.randn(24, 12, generator=torch.Generator().manual_seed(0))


def by_numpy(queries, temperature, k):
    """Error and hubness of rows of queries, in float64."""
    queries = queries.double().numpy()
    mass = scipy.special.softmax(queries / temperature, axis=1).sum(0)
    best = np.argsort(-queries, axis=1)[:, :k]
    occurrence = np.bincount(best.flatten(), minlength=queries.shape[1])
    return np.abs(1 - mass / mass.mean()).mean(), scipy.stats.skew(occurrence)


@pytest.mark.parametrize('k', [3, 10])
def test_numbers_are_those_of_numpy(relation, scores, k):
    metric = METRICS.build(dict(type='NormalisationMetric', temperature=0.2, k=k))
    numbers = metric({'scores': scores}, relation)
    for direction, queries in (('t2v', scores), ('v2t', scores.t())):
        error, skew = by_numpy(queries, 0.2, k)
        assert numbers[f'{direction}_error'] == pytest.approx(error, rel=1e-5)
        assert numbers[f'{direction}_hubness'] == pytest.approx(skew, rel=1e-9)
        rates = error_rates_by_mass(
            scores, relation.positives, temperature=0.2, dim=1 if direction == 't2v' else 0
        )
        expected = torch.cat([rates.false_negatives, rates.false_positives])
        found = [numbers[f'{direction}_{name}'] for name in RATES]
        assert found == pytest.approx((100 * expected).tolist())
    assert list(numbers)[:6] == [f't2v_{name}' for name in ('error', 'hubness', *RATES)]
    assert all(type(value) is float for value in numbers.values())


def test_over_represented_items_are_found_wrongly(relation):
    """A hub beside right answers: what is pushed away is missed, what pushes is found wrongly."""
    scores = relation.positives.float()
    scores[:, 0] += 2
    numbers = NormalisationMetric(temperature=0.1)({'scores': scores}, relation)
    assert (numbers['t2v_FN_under'], numbers['t2v_FN_over']) == (100, 0)
    assert math.isnan(numbers['t2v_FP_under'])  # nobody retrieves them
    assert numbers['t2v_FP_over'] == pytest.approx(100 * 22 / 24)


def test_each_direction_reads_its_matrix(relation, scores):
    metric, other = NormalisationMetric(temperature=0.2), scores.flip(1)
    both = metric({'scores': Directed(t2v=scores, v2t=other)}, relation)
    one, two = (metric({'scores': x}, relation) for x in (scores, other))
    expected = {key: (one if key.startswith('t2v') else two)[key] for key in both}
    assert both == pytest.approx(expected, nan_ok=True)


def test_the_models_temperature(relation, scores):
    matrices = {'scores': scores, 'temperature': torch.tensor(0.2)}
    given = NormalisationMetric(temperature=0.2)({'scores': scores}, relation)
    assert NormalisationMetric()(matrices, relation) == pytest.approx(given, nan_ok=True)
    own = NormalisationMetric(temperature=0.5)(matrices, relation)
    assert own['t2v_error'] < given['t2v_error']
    with pytest.raises(KeyError, match="the model gives no 'temperature', set Normalisation"):
        NormalisationMetric()({'scores': scores}, relation)


def test_transforms_are_measured_too(relation, scores):
    matrices = {'scores': scores, 'temperature': torch.tensor(0.2)}
    better = {'other': Directed(scores / 2, scores / 2)}
    report = evaluate([NormalisationMetric()], matrices, relation, better)
    key = 'normalisation/t2v_error'
    assert report.transformed['other'][key] < report.values[key]


@pytest.mark.parametrize('captions', [1, 2])
def test_chance_is_a_constant_matrix(captions):
    positives = torch.eye(12, dtype=torch.bool).repeat_interleave(captions, 0)
    chance = NormalisationMetric().chance(Relation(positives))
    own = 100 / (24 - 1)  # a caption of two among 22 others, its twin left out
    expected = dict(
        t2v_error=0, t2v_hubness=0, v2t_error=0, v2t_hubness=0,
        **{f't2v_{name}': 100 * 11 / 12 for name in RATES},
        **{f'v2t_{name}': 100 * 11 / 12 for name in RATES},
    )  # fmt: skip
    if captions == 2:
        expected.update({f'v2t_FN_{group}': 100 - own for group in ('under', 'over')})
    assert chance == pytest.approx(expected)


def test_bad_input_is_named(relation, scores):
    with pytest.raises(ValueError, match='temperature must be positive, not 0'):
        NormalisationMetric(temperature=0.0)
    with pytest.raises(ValueError, match='k must be at least 1, not 0'):
        NormalisationMetric(k=0)
    scores[4, 2] = torch.inf
    with pytest.raises(ValueError, match=r'scores\[4, 2\] is inf'):
        NormalisationMetric(temperature=1.0)({'scores': scores}, relation)


def test_the_examples():
    names = dict(torch=torch, Relation=Relation)
    module = mmvtr.evaluation.normalisation
    assert doctest.testmod(module, extraglobs=names).failed == 0
