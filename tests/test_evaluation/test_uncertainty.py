import doctest

import pytest
import torch
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import mmvtr.evaluation.uncertainty
from mmvtr.datasets.planted_corpus.grammar import draw_captions, judge
from mmvtr.datasets.planted_corpus.world import Knobs, draw_clip
from mmvtr.evaluation import GeneralCaptionMetric, RetrievalMetric, UncertaintyMetric, evaluate
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation

T, V = 40, 20


@pytest.fixture
def relation():
    positives = torch.eye(V, dtype=torch.bool).repeat_interleave(2, 0)
    truth = positives.clone()
    truth[::4, :6] = True
    return Relation(positives, truth)


@pytest.fixture
def matrices(relation):
    generator = torch.Generator().manual_seed(0)
    return {
        'scores': torch.randn(T, V, generator=generator) + 2 * relation.positives,
        'text_sigma': torch.rand(T, generator=generator),
        'video_sigma': torch.rand(V, generator=generator),
    }


def best_rank(scores, positives):
    """Rank of the best match of each row, by loops."""
    found = []
    for row, own in zip(scores.tolist(), positives.tolist()):
        best = max(s for s, p in zip(row, own) if p)
        found.append(1 + sum(s > best for s in row))
    return found


def test_numbers_by_loops(matrices, relation):
    numbers = METRICS.build(dict(type='UncertaintyMetric'))(matrices, relation)
    scores, positives = matrices['scores'], relation.positives
    for direction, s, p, sigma in (
        ('t2v', scores, positives, matrices['text_sigma'].tolist()),
        ('v2t', scores.t(), positives.t(), matrices['video_sigma'].tolist()),
    ):
        rank = best_rank(s, p)
        order = sorted(range(len(rank)), key=lambda i: sigma[i])  # noqa: B023
        accuracy = [
            100 * sum(rank[i] == 1 for i in order[: k + 1]) / (k + 1) for k in range(len(s))
        ]
        for percent in (0, 10, 20, 30, 40, 50):
            kept = len(s) * (100 - percent) // 100
            assert numbers[f'{direction}_R1_drop{percent}'] == pytest.approx(accuracy[kept - 1])
        area = sum(accuracy) / len(s)
        assert numbers[f'{direction}_R1_area'] == pytest.approx(area)
        right = sum(r == 1 for r in rank)
        best = sum(100 * min(1, right / (k + 1)) for k in range(len(s))) / len(s)
        gain = 100 * (area - accuracy[-1]) / (best - accuracy[-1])
        assert numbers[f'{direction}_rejection'] == pytest.approx(gain)
        rho = 100 * spearmanr(sigma, rank).statistic
        assert numbers[f'{direction}_calibration'] == pytest.approx(rho)
    assert numbers['sigma_mean_text'] == pytest.approx(float(matrices['text_sigma'].mean()))
    assert numbers['sigma_mean_video'] == pytest.approx(float(matrices['video_sigma'].mean()))


def test_score_control_and_chance(matrices, relation):
    best = matrices['scores'].amax(1)
    told = UncertaintyMetric()({**matrices, 'text_sigma': -best}, relation)
    assert told['t2v_rejection'] == pytest.approx(told['t2v_rejection_scores'])
    constant = {**matrices, 'text_sigma': torch.ones(T), 'video_sigma': torch.ones(V)}
    numbers = UncertaintyMetric()(constant, relation)
    chance = UncertaintyMetric().chance(relation)
    for key in ('t2v_rejection', 'v2t_rejection', 't2v_calibration', 'v2t_calibration'):
        assert numbers[key] == pytest.approx(chance[key], abs=1e-9)
    assert numbers['t2v_R1_drop50'] == pytest.approx(numbers['t2v_R1_drop0'])


def test_directed_scores_and_queries_without_a_match(matrices, relation):
    t2v, v2t = matrices['scores'], matrices['scores'].flip(0)
    both = UncertaintyMetric()({**matrices, 'scores': Directed(t2v, v2t)}, relation)
    one = UncertaintyMetric()({**matrices, 'scores': v2t}, relation)
    assert both['v2t_R1_area'] == one['v2t_R1_area'] and both['t2v_R1_area'] != one['t2v_R1_area']
    fewer = relation.positives.clone()
    fewer[:, 0] = False  # video 0 and its two texts
    part = UncertaintyMetric()(matrices, Relation(fewer))
    kept = {**matrices, 'scores': matrices['scores'][2:], 'text_sigma': matrices['text_sigma'][2:]}
    expected = UncertaintyMetric()(kept, Relation(fewer[2:]))
    assert {k: v for k, v in part.items() if k.startswith('t2v')} == pytest.approx(
        {k: v for k, v in expected.items() if k.startswith('t2v')}
    )


def test_first_recall_is_that_of_the_retrieval_metric(matrices, relation):
    metrics = [RetrievalMetric(), UncertaintyMetric(), GeneralCaptionMetric(share=0.1)]
    values = evaluate(metrics, matrices, relation).values
    assert values['uncertainty/t2v_R1_drop0'] == pytest.approx(values['retrieval/t2v_R1'])
    assert values['uncertainty/v2t_R1_drop0'] == pytest.approx(values['retrieval/v2t_caption_R1'])


def test_general_captions_auc_is_sklearns(matrices, relation):
    numbers = METRICS.build(dict(type='GeneralCaptionMetric', share=0.1))(matrices, relation)
    general = [row.sum() > 2 for row in relation.truth]
    assert sum(general) == 10
    expected = roc_auc_score(general, matrices['text_sigma'])
    assert numbers['general_auc'] == pytest.approx(100 * expected)
    expected = roc_auc_score(general, -matrices['scores'].amax(1))
    assert numbers['general_auc_scores'] == pytest.approx(100 * expected)


def test_a_share_of_two_percent_finds_the_planted_level():
    knobs = Knobs()
    clips = [draw_clip(knobs, 'test', clip) for clip in range(400)]
    captions = [draw_captions(knobs, 'test', i, clip, 1)[0] for i, clip in enumerate(clips)]
    truth = torch.as_tensor(judge(captions, clips).holds)
    relation = Relation(torch.eye(400).bool(), truth)
    level = torch.tensor([caption['level'] == 'general' for caption in captions])
    matrices = dict(scores=torch.zeros(400, 400), text_sigma=level.float())
    assert (
        0 < level.sum() < 400 and GeneralCaptionMetric()(matrices, relation)['general_auc'] == 100
    )


def test_bad_vectors(matrices, relation):
    def measure(**changed):
        return UncertaintyMetric()({**matrices, **changed}, relation)

    with pytest.raises(KeyError, match="'text_sigma' is missing.*it has no heads"):
        UncertaintyMetric()({'scores': matrices['scores']}, relation)
    with pytest.raises(ValueError, match=r"'video_sigma' is \[40\], expected \[20\]"):
        measure(video_sigma=matrices['text_sigma'])
    broken = matrices['text_sigma'].clone()
    broken[3] = torch.nan
    with pytest.raises(ValueError, match="'text_sigma' is not finite for item 3"):
        measure(text_sigma=broken)
    with pytest.raises(ValueError, match='t2v: no query has a match'):
        UncertaintyMetric()(matrices, Relation(torch.zeros(T, V).bool()))


def test_general_captions_must_exist_and_be_known(matrices, relation):
    with pytest.raises(ValueError, match='needs the truth'):
        GeneralCaptionMetric()(matrices, Relation(relation.positives))
    with pytest.raises(ValueError, match='0 of 40 texts hold for more than 50%'):
        GeneralCaptionMetric(share=0.5)(matrices, relation)
    with pytest.raises(ValueError, match=r'share must lie in \(0, 1\)'):
        GeneralCaptionMetric(share=2.0)


def test_the_examples():
    names = dict(torch=torch, Relation=Relation)
    assert doctest.testmod(mmvtr.evaluation.uncertainty, extraglobs=names).failed == 0
