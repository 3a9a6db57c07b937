"""JudgedMetric on a set small enough to reckon by hand, and what it refuses."""

import numpy as np
import pytest
import torch

from mmvtr.datasets import PairValues, write_qrels
from mmvtr.evaluation import JudgedMetric, evaluate
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation

IDS = dict(text_ids=['t0', 't1', 't2'], video_ids=['a', 'b', 'c', 'd'])
RELATION = Relation(torch.eye(3, 4).bool(), **IDS)
#: Text 0: b is right beside its own a, c is wrong, d unjudged. Text 1: its own alone is judged.
PAIRS = PairValues(
    ['t0', 't0', 't0', 't1', 'other'], ['a', 'b', 'c', 'b', 'a'], np.array([1.0, 2, 0, 1, 1])
)
SCORES = torch.tensor([[0.6, 0.5, 0.7, 0.9], [0.1, 0.3, 0.5, 0.2], [0.9, 0.1, 0.1, 0.1]])


def test_by_hand():
    numbers = JudgedMetric(PAIRS, k=(1, 2))({'scores': SCORES}, RELATION)
    t2v = {key.removeprefix('t2v_'): x for key, x in numbers.items() if key.startswith('t2v')}
    assert t2v == pytest.approx(
        dict(
            queries=2,  # nobody judged anything of text 2
            extra_queries=1,
            P1=0,  # an unjudged one is first, of both
            share1=0,
            P2=25,  # d c | c b
            share2=50,
            P2_known=50,
            bpref=50,  # one wrong above both of text 0, min(1, 2) / min(2, 1) | no wrong
            AP=100 * ((1 / 2 + 2 / 3) / 2 + 1) / 2,  # c a b | b
            mAP_R=0,  # of text 0 places d c, of text 1 place c
            R_precision=0,
            extra_AP=50,  # c b
            extra_R_precision=0,
        )
    )


def test_from_a_file_in_a_config(tmp_path):
    write_qrels(tmp_path / 'q', PAIRS)
    reader = dict(type='read_qrels', path=str(tmp_path / 'q'))
    metric = METRICS.build(dict(type='JudgedMetric', judgments=reader, k=(1, 2)))
    expected = JudgedMetric(PAIRS, k=(1, 2))({'scores': SCORES}, RELATION)
    assert metric({'scores': SCORES}, RELATION) == expected
    both = JudgedMetric(dict(t2v=reader, v2t=PAIRS), k=(1, 2))
    assert both({'scores': SCORES}, RELATION) == expected


def test_chance_and_ceiling():
    report = evaluate([JudgedMetric(PAIRS, k=(1, 2))], {'scores': SCORES}, RELATION)
    assert report.chance['judged/t2v_P1'] == pytest.approx(100 * (2 / 4 + 1 / 4) / 2)
    assert report.chance['judged/t2v_share1'] == pytest.approx(100 * (3 / 4 + 1 / 4) / 2)
    assert report.ceiling['judged/t2v_mAP_R'] == report.ceiling['judged/v2t_bpref'] == 100
    assert not [key for key in report.ceiling if 'share' in key or 'queries' in key]


def test_at_least():
    numbers = JudgedMetric(PAIRS, at_least=2, k=(1,))({'scores': SCORES}, RELATION)
    assert numbers['t2v_extra_queries'] == 1 and numbers['t2v_mAP_R'] == 0
    strict = JudgedMetric(PAIRS, at_least=3, k=(1,))({'scores': SCORES}, RELATION)
    assert strict['t2v_extra_queries'] == 0 and 't2v_extra_AP' not in strict


def test_what_is_refused():
    with pytest.raises(ValueError, match='k must be places from 1 on'):
        JudgedMetric(PAIRS, k=(0,))
    strange = PairValues(['x'], ['y'], np.ones(1), 'file.qrels')
    with pytest.raises(ValueError, match='file.qrels: none of 1 pairs belongs to these texts'):
        JudgedMetric(strange)({'scores': SCORES}, RELATION)


def test_judgments_of_the_dataset():
    """A metric without judgments reads those of the relation, and says so where there are none."""
    metric = JudgedMetric(k=(1, 2))
    grades = torch.full((3, 4), torch.nan, dtype=torch.float64)
    grades[0, 0], grades[0, 1], grades[0, 2], grades[1, 1] = 1, 2, 0, 1
    given = RELATION._replace(judgments=Directed(grades, grades))
    assert metric({'scores': SCORES}, given) == JudgedMetric(PAIRS, k=(1, 2))(
        {'scores': SCORES}, RELATION
    )
    with pytest.raises(ValueError, match='no judgments: give the dataset or the metric'):
        metric({'scores': SCORES}, RELATION)
