"""The paired metric: keys, protocols, chance and ceiling, errors."""

import doctest

import pytest
import torch
from mmengine.config import Config
from mmengine.evaluator import Evaluator

import mmvtr.evaluation.metric
import mmvtr.evaluation.retrieval
from mmvtr.engine.training import choose_on_test
from mmvtr.evaluation import RetrievalMetric, SemanticMetric, evaluate, results_table
from mmvtr.evaluation.metric import listed_metrics
from mmvtr.registry import METRICS
from mmvtr.structures import Relation

SCORES = torch.tensor(
    [
        [0.9, 0.3, 0.1],
        [0.5, 0.6, 0.1],  # text 1 belongs to video 0 but prefers video 1
        [0.2, 0.4, 0.8],  # text 2 belongs to video 1 but prefers video 2
        [0.1, 0.2, 0.7],
    ]
)
POSITIVES = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).bool()


def measure(scores=SCORES, positives=POSITIVES, **kwargs):
    return RetrievalMetric(recall_at=(1, 2), **kwargs)({'scores': scores}, Relation(positives))


def test_numbers_by_hand():
    """t2v ranks 1 2 2 1. Captions of videos give [.9 .6 .1; .2 .4 .8; .1 .2 .7]: v2t ranks 1 2 2.
    Own caption among four captions: v2t ranks 1 2 2, too, as text 1 and text 2 stand above."""
    numbers = measure()
    assert numbers == pytest.approx(
        dict(
            t2v_R1=50, t2v_R2=100, t2v_MdR=1.5, t2v_MnR=1.5, t2v_gmean=5000**0.5,
            v2t_R1=100 / 3, v2t_R2=100, v2t_MdR=2, v2t_MnR=5 / 3, v2t_gmean=(1e4 / 3) ** 0.5,
            v2t_caption_R1=100 / 3, v2t_caption_R2=100, v2t_caption_MdR=2,
            v2t_caption_MnR=5 / 3, v2t_caption_gmean=(1e4 / 3) ** 0.5,
            rsum=150 + 400 / 3, rsum_caption=150 + 400 / 3,
        )
    )  # fmt: skip
    assert all(type(value) is float for value in numbers.values())


def test_further_recalls_are_shown_but_not_summed():
    plain, more = measure(), measure(also_recall_at=(3,))
    assert (more['t2v_R3'], more['v2t_R3']) == (100, 100)
    assert {key: more[key] for key in plain} == plain, 'rsum and gmean stay comparable'
    assert 'v2t_R3' in RetrievalMetric(also_recall_at=(3,)).chance(Relation(POSITIVES))


def test_the_two_caption_protocols_differ():
    """Both captions of video 1 stand above video 0's: one video, but two captions."""
    scores = torch.tensor([[0.5, 0.0], [0.9, 0.9], [0.8, 0.8]])
    positives = torch.tensor([[1, 0], [0, 1], [0, 1]]).bool()
    numbers = measure(scores, positives)
    assert (numbers['v2t_MnR'], numbers['v2t_caption_MnR']) == (1.5, 2.0)


def test_one_caption_a_video_shows_one_protocol():
    keys = measure(SCORES[1:], POSITIVES[1:]).keys()
    assert 'v2t_R1' in keys and 'rsum' in keys
    assert not any('caption' in key for key in keys)
    only = measure(SCORES[1:], POSITIVES[1:], v2t_protocols=('best_caption',))
    assert 'v2t_caption_R1' in only and 'rsum_caption' in only and 'v2t_R1' not in only


def test_texts_alone_may_ask():
    """What papers on partially relevant video retrieval report: SumR of text to video."""
    numbers = measure(v2t_protocols=())
    assert numbers == pytest.approx(
        dict(t2v_R1=50, t2v_R2=100, t2v_MdR=1.5, t2v_MnR=1.5, t2v_gmean=5000**0.5, t2v_SumR=150)
    )
    shown = measure(v2t_protocols=(), also_recall_at=(3,))
    assert shown['t2v_R3'] == 100 and shown['t2v_SumR'] == 150
    chance = RetrievalMetric(recall_at=(1, 2), v2t_protocols=()).chance(Relation(POSITIVES))
    assert chance['t2v_SumR'] == pytest.approx(100)  # a third and two thirds


def test_a_video_without_captions_stays_in_the_gallery():
    numbers = measure(SCORES[:3], POSITIVES[:3], v2t_protocols=('max_over_captions',))
    assert numbers['t2v_MnR'] == pytest.approx(5 / 3)  # text 2 still loses to video 2
    assert numbers['v2t_MnR'] == 1.5  # videos 0 and 1 ask; nobody stands for video 2


def test_chance_is_the_mean_over_random_scores():
    metric, relation = RetrievalMetric(recall_at=(1, 2)), Relation(POSITIVES)
    torch.manual_seed(0)
    draws = [metric({'scores': torch.rand(4, 3)}, relation) for _ in range(400)]
    chance = metric.chance(relation)
    assert chance['t2v_R1'] == pytest.approx(100 / 3)
    # v2t_R2 is no such mean: the best of two random captions beats a single one.
    for key in ('t2v_R1', 't2v_R2', 't2v_MnR', 'v2t_caption_R1', 'v2t_caption_MnR'):
        assert chance[key] == pytest.approx(sum(x[key] for x in draws) / 400, rel=0.12)
    assert chance.keys() == draws[0].keys()


def test_ceiling_is_the_truth_with_random_ties():
    truth = POSITIVES.clone()
    truth[3] = True  # fits everywhere: its own video comes first once in three times
    metric = RetrievalMetric(recall_at=(1, 2))
    ceiling = metric.ceiling(Relation(POSITIVES, truth))
    assert ceiling['t2v_R1'] == pytest.approx(100 * (3 + 1 / 3) / 4)
    assert ceiling['t2v_R2'] == pytest.approx(100 * (3 + 2 / 3) / 4)
    assert ceiling['t2v_MnR'] == pytest.approx((3 + 2) / 4)
    # Video to caption: what fits one video stands before what fits all.
    plain = RetrievalMetric(recall_at=(1,), v2t_protocols=('best_caption',))
    assert plain.ceiling(Relation(POSITIVES, truth))['v2t_caption_R1'] == pytest.approx(100)
    assert metric.ceiling(Relation(POSITIVES)) == {}


def test_true_pairs_alike_lose_what_the_best_paired_scorer_gains():
    """Texts 0 and 1 tell of one video each, text 2 of all three: alike, each video has two."""
    truth = torch.tensor([[1, 0, 0], [0, 1, 0], [1, 1, 1]]).bool()
    relation, metric = Relation(torch.eye(3).bool(), truth=truth), RetrievalMetric(recall_at=(1,))
    alike, ceiling = metric.alike(relation), metric.ceiling(relation)
    assert alike['t2v_R1'] == ceiling['t2v_R1'] == pytest.approx(100 * (1 + 1 + 1 / 3) / 3)
    assert alike['v2t_R1'] == pytest.approx(100 * (1 / 2 + 1 / 2 + 1) / 3)
    assert ceiling['v2t_R1'] == pytest.approx(100)
    report = evaluate([metric], {'scores': truth.float()}, relation)
    assert report.alike['retrieval/v2t_R1'] == alike['v2t_R1']
    assert 'chance   alike ceiling' in results_table(report)
    assert metric.alike(Relation(torch.eye(3).bool())) == {}


def test_nan_names_the_text_and_the_video():
    scores = SCORES.clone()
    scores[2, 1] = torch.nan
    relation = Relation(POSITIVES, text_ids=list('abcd'), video_ids=['x', 'y', 'z'])
    with pytest.raises(ValueError, match="'scores' is NaN for text 'c' and video 'y'"):
        RetrievalMetric()({'scores': scores}, relation)
    with pytest.raises(ValueError, match='text number 2 and video number 1'):
        measure(scores)


def test_bad_input():
    with pytest.raises(ValueError, match='max_over_captions'):
        RetrievalMetric(v2t_protocols=('diagonal',))
    with pytest.raises(ValueError, match='nothing to rank'):
        measure(positives=torch.zeros(4, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r'\[4, 2\], the relation \[4, 3\]'):
        measure(SCORES[:, :2])
    with pytest.raises(KeyError, match="reads the matrix 'scores', the model gives .'global'"):
        RetrievalMetric()({'global': SCORES}, Relation(POSITIVES))


def test_a_report_has_prefixed_floats_and_no_double_keys():
    metric = METRICS.build(dict(type='RetrievalMetric', recall_at=[1]))
    report = evaluate([metric], {'scores': SCORES}, Relation(POSITIVES, truth=POSITIVES))
    assert report.values['retrieval/t2v_R1'] == 50.0
    assert report.chance.keys() == report.values.keys() == report.ceiling.keys()
    with pytest.raises(ValueError, match='two metrics give'):
        evaluate([metric, metric], {'scores': SCORES}, Relation(POSITIVES))


def test_the_examples():
    names = dict(torch=torch, Relation=Relation, RetrievalMetric=RetrievalMetric)
    names['SemanticMetric'] = SemanticMetric
    for module in (mmvtr.evaluation.metric, mmvtr.evaluation.retrieval):
        assert doctest.testmod(module, extraglobs=names).failed == 0


def test_an_evaluator_is_read_alike_in_every_form():
    """Which metrics it has, and what --best-on-test makes of one of texts alone."""
    metric = dict(type='RetrievalMetric', v2t_protocols=())
    one = [metric]
    several = (metric, dict(type='UncertaintyMetric'))
    for given, listed in (
        (metric, one),
        (one, one),
        (several, [*several]),
        (dict(metrics=one), one),
        (dict(type='Evaluator', metrics=several), [*several]),
        (None, []),
    ):
        assert listed_metrics(given) == listed
        if listed:
            keep = dict(save_best='retrieval/rsum')
            cfg = dict(test_dataloader={}, train_cfg={}, test_evaluator=given, test_cfg={})
            cfg = Config(dict(cfg, default_hooks=dict(checkpoint=keep)))
            choose_on_test(cfg)
            assert cfg.default_hooks.checkpoint.save_best == 'retrieval/t2v_SumR', given
    built = RetrievalMetric()
    assert listed_metrics(Evaluator([built])) == [built]
