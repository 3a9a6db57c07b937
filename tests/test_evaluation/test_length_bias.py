"""The metric of length bias on a toy world where what it measures can be planted."""

import csv
import doctest

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import mmvtr.evaluation.length_bias
from mmvtr.datasets import VideoTextDataset
from mmvtr.datasets.sampling.splits import class_means
from mmvtr.evaluation import LengthBiasMetric, evaluate, results_table
from mmvtr.evaluation.length_bias import common_actions, known_lengths
from mmvtr.registry import DATASETS, METRICS
from mmvtr.structures import Directed, Relation

#: Mean lengths of the toy's actions (verb, noun) in training.
TRAIN = {(0, 0): 20.0, (1, 0): 200.0, (2, 1): 90.0, (3, 3): 500.0}
TEXTS, VIDEOS, ACTIONS = 24, 80, [(0, 0), (1, 0), (2, 1)]


@DATASETS.register_module()
class LengthBiasToy(VideoTextDataset):
    """Two videos of each action of TRAIN, 10 frames (a second) under and over its mean."""

    def __init__(self, video_pipeline, text_pipeline, *, lacks='', fps=10):
        self.lacks = lacks
        self.fps = fps
        super().__init__(video_pipeline, text_pipeline)

    def load_annotations(self):
        videos, texts = [], []
        for action, mean in TRAIN.items():
            for more in (-10, 10):
                name = f'{action}{more}'
                facts = dict(
                    actions=[list(action)],
                    num_frames=mean + more,
                    duration=(mean + more) / self.fps,
                )
                facts = {key: value for key, value in facts.items() if key not in self.lacks}
                texts.append(dict(text_id=name, text=name, video_idx=[len(videos)], **facts))
                videos.append(dict(video_id=name, path=f'nowhere/{name}.mp4', **facts))
        return videos, texts


CONFIG = dict(
    type='LengthBiasToy', video_pipeline=[dict(type='LoadVideo', num_frames=4)], text_pipeline=[]
)


@pytest.fixture
def relation():
    """Videos of three actions, the first far longer than in training, the last just as long."""
    generator = np.random.default_rng(0)
    videos = [ACTIONS[v % 3] for v in range(VIDEOS)]
    texts = [ACTIONS[t % 3] for t in range(TEXTS)]
    means = {(0, 0): 120, (1, 0): 100, (2, 1): 100}
    lengths = np.array([means[a] for a in videos]) + generator.integers(-80, 81, VIDEOS)
    same = np.array([[(a[0] == b[0]) + (a[1] == b[1]) for b in videos] for a in texts])
    return Relation(
        torch.from_numpy(same == 2),
        relevance=torch.from_numpy(same / 2).float(),
        video_lengths=torch.from_numpy(lengths.astype(float)),
        text_actions=[(a,) for a in texts],
        video_actions=[(a,) for a in videos],
    )


@pytest.fixture
def metric():
    return METRICS.build(dict(type='LengthBiasMetric', train=CONFIG, top=5))


def train_of(relation):
    return torch.tensor([TRAIN[a] for (a,) in relation.text_actions]).double()


def model(relation, *, semantics, bias, seed=0):
    """Scores that know the relevance, and like videos as long as in training."""
    noise = torch.randn(TEXTS, VIDEOS, generator=torch.Generator().manual_seed(seed))
    distance = (relation.video_lengths - train_of(relation)[:, None]).abs() / 50
    return semantics * relation.relevance + noise - bias * distance


def test_the_numbers_are_those_of_loops(metric, relation):
    scores = model(relation, semantics=1, bias=0.5)
    found = metric({'scores': scores}, relation)
    lengths = relation.video_lengths.numpy()
    owner = np.array([ACTIONS.index(a) for (a,) in relation.video_actions])
    test = [lengths[owner == a].mean() for a in range(3)]
    train = [TRAIN[a] for a in ACTIONS]
    judged = [t for t in range(TEXTS) if abs(train[t % 3] - test[t % 3]) >= 60]
    items, queries, failures, correlations = [], [], 0, dict(train=[], test=[])
    for t in judged:
        a = t % 3
        order = (-scores[t]).argsort().numpy()
        nearer = [abs(x - train[a]) < abs(x - test[a]) for x in lengths[order[:5]]]
        items.append(np.mean(nearer))
        mean = lengths[order[:5]].mean()
        queries.append(abs(mean - train[a]) < abs(mean - test[a]))
        rank = 1 + min(np.flatnonzero(owner[order] == a))
        failures += queries[-1] and rank > 10
        strange = (relation.relevance[t] == 0).numpy()
        for name, centre in (('train', train[a]), ('test', test[a])):
            pair = -scores[t, strange].numpy(), np.abs(lengths[strange] - centre)
            correlations[name].append(spearmanr(*pair).statistic)
    assert {t % 3 for t in judged} == {0, 1} and 0 < np.mean(queries) < 1
    expected = dict(
        t2v_train_correlation=100 * np.mean(correlations['train']),
        t2v_test_correlation=100 * np.mean(correlations['test']),
        t2v_train_items=100 * np.mean(items),
        t2v_train_queries=100 * np.mean(queries),
        t2v_failures=failures,
        t2v_judged=len(judged),
        t2v_gap=np.mean(np.abs(np.array(train) - test)),
    )
    assert found == pytest.approx(expected, rel=1e-9)
    both = metric({'scores': Directed(scores, -scores)}, relation)
    assert both == found


def test_failures_have_their_match_behind_rank_10(relation):
    metric = LengthBiasMetric(train=CONFIG, top=5)
    relation = relation._replace(positives=relation.positives & (torch.arange(VIDEOS) < 3))
    scores = torch.zeros(TEXTS, VIDEOS)
    nearest = (relation.video_lengths - train_of(relation)[:, None]).abs().argsort(dim=1)
    scores.scatter_(1, nearest[:, 10:25], 0.5)
    scores.scatter_(1, nearest[:, :10], 0.9)
    scores[:, :3], scores[0, 0] = -1, 1  # only text 0 has its own video in front
    found = metric({'scores': scores}, relation)
    assert found['t2v_judged'] == 16 and found['t2v_train_queries'] == 100
    assert found['t2v_failures'] == 15


def test_bias_is_told_from_skill(metric, relation):
    """The correlation grows with the bias alone; the shares fall with skill, too."""
    blind = [metric({'scores': model(relation, semantics=s, bias=0)}, relation) for s in (0, 3)]
    for bias in (0.5, 2):
        biased = [
            metric({'scores': model(relation, semantics=s, bias=bias)}, relation) for s in (0, 3)
        ]
        rise = [
            b['t2v_train_correlation'] - a['t2v_train_correlation'] for a, b in zip(blind, biased)
        ]
        assert min(rise) > 20
        # Among strange videos, a model's skill makes no difference.
        assert biased[0]['t2v_train_correlation'] == biased[1]['t2v_train_correlation']
        assert biased[0]['t2v_train_items'] > blind[0]['t2v_train_items']
        assert biased[1]['t2v_train_queries'] < biased[0]['t2v_train_queries']


def test_chance_is_the_mean_of_random_scores(metric, relation):
    chance = metric.chance(relation)
    generator = torch.Generator().manual_seed(1)
    draws = [
        metric({'scores': torch.rand(TEXTS, VIDEOS, generator=generator)}, relation)
        for _ in range(150)
    ]
    for key, expected in chance.items():
        values = np.array([draw[key] for draw in draws])
        assert values.mean() == pytest.approx(expected, abs=4 * values.std() / 150**0.5 + 0.5)
    assert chance['t2v_train_correlation'] == 0 and chance.keys() < draws[0].keys()


def test_the_ceiling_is_that_of_the_relevance(metric, relation):
    perfect = metric({'scores': relation.relevance}, relation)
    ceiling = metric.ceiling(relation)
    assert ceiling == pytest.approx({key: perfect[key] for key in ceiling})
    assert ceiling['t2v_train_correlation'] == ceiling['t2v_test_correlation'] == 0
    assert metric.ceiling(relation._replace(relevance=None)) == {}


def test_strange_videos_share_no_action_and_no_match(metric, relation):
    """Where relevance is not known, by the actions; a match counts without a common action."""
    scores = model(relation, semantics=3, bias=1)
    relation = relation._replace(relevance=None)
    plain = metric({'scores': scores}, relation)
    own = torch.tensor(
        [[a == b for (b,) in relation.video_actions] for (a,) in relation.text_actions]
    )
    positives = own.clone()
    positives[:, 4] = True
    other = relation._replace(positives=positives)
    for changed in (torch.where(own, 100.0, scores), torch.where(own, -100.0, scores)):
        found = metric({'scores': changed}, relation)
        assert found['t2v_train_correlation'] == plain['t2v_train_correlation']
    shifted = scores.clone()
    shifted[:, 4] = 100
    key = 't2v_train_correlation'
    assert metric({'scores': shifted}, relation)[key] != plain[key]
    assert metric({'scores': shifted}, other)[key] == metric({'scores': scores}, other)[key]


def test_a_text_of_several_actions_has_their_mean(relation):
    """Of common ones; a text without one is left out."""
    metric = LengthBiasMetric(train=CONFIG, top=5, min_gap=1)
    actions = [((0, 0), (1, 0)), ((1, 0), (9, 9)), ((9, 9),), ()] + [((0, 0),)] * (TEXTS - 4)
    several = relation._replace(text_actions=actions)
    found = metric({'scores': model(relation, semantics=0, bias=1)}, several)
    assert found['t2v_judged'] == TEXTS - 2
    lengths = relation.video_lengths.numpy()
    test = class_means(lengths, relation.video_actions)
    common = common_actions(TRAIN, test)
    means = mmvtr.evaluation.length_bias._text_means(actions, common)
    assert means[0].tolist() == pytest.approx([110, (test[0, 0] + test[1, 0]) / 2])
    assert means[1].tolist() == pytest.approx([200, test[1, 0]])
    assert np.isnan(means[2:4]).all()


def test_the_training_set_is_read_once_and_not_its_files(metric, relation):
    assert metric.train_means is None
    metric.prepare()
    assert metric.train_means == TRAIN
    metric.train = None
    metric.prepare()
    dataset = LengthBiasToy([], [])
    given = LengthBiasMetric(train=dataset, top=5)
    scores = {'scores': model(relation, semantics=1, bias=1)}
    assert given(scores, relation) == metric(scores, relation)


def test_lengths_in_seconds_where_frames_are_not_known():
    assert known_lengths(LengthBiasToy([], []))[1] == 'frames'
    lengths, unit = known_lengths(LengthBiasToy([], [], lacks=('num_frames',)))
    assert unit == 'seconds' and lengths[:2].tolist() == [1, 3]
    with pytest.raises(ValueError, match=r'\(0, 0\)-10'):
        known_lengths(LengthBiasToy([], [], lacks=('num_frames', 'duration')))


def test_common_actions():
    common = common_actions({(1, 0): 5.0, (0, 2): 10.0, (7, 7): 1.0}, {(0, 2): 4.0, (1, 0): 9.0})
    assert common.actions == [(0, 2), (1, 0)] and common.gaps.tolist() == [-6, 4]
    assert common_actions({}, {(0, 0): 1.0}).gaps.shape == (0,)


def test_in_the_table(metric, relation):
    scores = model(relation, semantics=1, bias=1)
    table = results_table(evaluate([metric], {'scores': scores}, relation))
    assert 'train_correlation' in table and 'both directions' not in table


@pytest.mark.parametrize('name', ['video_lengths', 'text_actions', 'video_actions'])
def test_what_it_needs(metric, relation, name):
    without = relation._replace(**{name: None if name == 'video_lengths' else ()})
    with pytest.raises(ValueError, match=f'LengthBiasMetric needs the {name} of the set'):
        metric({'scores': torch.zeros(TEXTS, VIDEOS)}, without)


def test_bad_input(relation):
    scores = {'scores': torch.rand(TEXTS, VIDEOS)}
    with pytest.raises(ValueError, match='top and min_gap must be positive, not 0 and 60'):
        LengthBiasMetric(train=CONFIG, top=0)
    with pytest.raises(ValueError, match='top and min_gap must be positive, not 20 and 0'):
        LengthBiasMetric(train=CONFIG, min_gap=0)
    strangers = relation._replace(text_actions=[((9, 9),)] * TEXTS)
    for metric, texts in (
        (LengthBiasMetric(train=CONFIG, min_gap=1000), relation),
        (LengthBiasMetric(train=CONFIG, min_gap=dict(frames=1000, seconds=1)), relation),
        (LengthBiasMetric(train=CONFIG), strangers),
    ):  # not an error: the rest of the table must not be lost at the end of a training
        assert metric(scores, texts) == {'t2v_judged': 0.0}
        assert metric.chance(texts) == metric.ceiling(texts) == {}
    seconds = relation._replace(length_unit='seconds')
    with pytest.raises(
        ValueError, match='in frames in the training set, but in seconds in this one'
    ):
        LengthBiasMetric(train=CONFIG)(scores, seconds)
    lacking = LengthBiasMetric(train=dict(CONFIG, lacks=('actions',)))
    with pytest.raises(ValueError, match=r"LengthBiasToy: video '\(0, 0\)-10' has no actions"):
        lacking(scores, relation)


def test_the_facts_of_epic_kitchens(shared):
    """1,114 common classes: a gap > 60 / >= 200 frames in 578 / 218, longer in test in 691."""
    folder = shared / 'data/EPIC100'
    train = read_classes(folder / 'EPIC_100_train_rebuilt.csv')
    test = read_classes(folder / 'retrieval_annotations/EPIC_100_retrieval_test.csv')
    assert (len(train[0]), len(test[0])) == (67217, 9668)
    assert np.mean(train[0]) == pytest.approx(172.44, abs=0.01)
    assert np.mean(test[0]) == pytest.approx(220.99, abs=0.01)
    common = common_actions(class_means(*train), class_means(*test))
    assert len(common.actions) == 1114
    assert (np.abs(common.gaps) > 60).sum() == 578
    assert (np.abs(common.gaps) >= 200).sum() == 218
    assert (common.gaps > 0).sum() == 691
    rubbish = common.actions.index((0, 54))
    assert common.train[rubbish] == pytest.approx(177.105, abs=1e-3)
    assert common.test[rubbish] == 305.5


def read_classes(path):
    """Lengths in native frames, and the actions, of the rows of a csv."""
    with open(path) as file:
        rows = list(csv.DictReader(file))
    lengths = np.array([int(row['stop_frame']) - int(row['start_frame']) for row in rows])
    return lengths, [[(int(row['verb_class']), int(row['noun_class']))] for row in rows]


def test_the_examples():
    assert doctest.testmod(mmvtr.evaluation.length_bias).failed == 0
