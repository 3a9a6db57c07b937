"""Environments by rule: assignments, notes, hashes, controls, and what cannot be done."""

import re
from collections import Counter

import numpy as np
import pytest
from mmengine.runner import Runner

from mmvtr.datasets.planted_corpus.dataset import CLASSES, PlantedDataset
from mmvtr.datasets.planted_corpus.grammar import MEANING
from mmvtr.registry import DATASETS, TASK_UTILS


class Videos:
    """The part of a dataset that environments read; a tenth of a frame is a second."""

    def __init__(self, lengths, actions=None, prefix='v'):
        self.frames = np.array(lengths, dtype=np.float64)
        self.videos = [
            dict(video_id=f'{prefix}{v}', num_frames=frames, duration=frames / 10)
            for v, frames in enumerate(lengths)
        ]
        for video, of_video in zip(self.videos, actions or []):
            video['actions'] = of_video

    def lengths(self, unit='frames'):
        return self.frames / dict(frames=1, seconds=10)[unit]


LENGTHS = [10, 11, 12, 30, 31, 32, 33, 34]  # their mean is 24.125, that of the longer half 32.5
TEST = Videos([33, 33.9])


def build(type, **kwargs):
    return TASK_UTILS.build(dict(type=f'mmvtr.{type}', **kwargs))


def assign(dataset, type, **kwargs):
    environments = build(type, **kwargs)
    groups = environments.groups(dataset.videos)
    assert groups.dtype == np.int64 and groups.shape == (len(dataset.videos),)
    assert '\n' not in environments.note and environments.note.startswith(f'{type}: ')
    return groups.tolist(), environments.note


@pytest.mark.parametrize(
    'kwargs, expected, note',
    [
        (dict(), '00011111', 'length < 24 frames, the mean train length 24.12; 3 / 5 videos, 0 '),
        (dict(unit='seconds'), '00011111', 'length < 2.4125 seconds, the mean train length 2.41;'),
        (dict(parts=3), '00001222', '3 parts by length, adjusted, length < 32 frames'),
        (dict(threshold=31), '00001111', 'length < 31 frames, as given; 4 / 4 videos'),
        (dict(threshold=31.5), '00000111', 'length < 31.5 frames, as given; 5 / 3 videos'),
        (dict(share=0.7), '00000111', '2 parts by length, adjusted, share 0.7; 5 / 3 videos'),
        (dict(rule='equal'), '00001111', '2 parts by length, equal; 4 / 4 videos, 0 left out'),
        (dict(rule='equal', parts=3), '00011122', '3 parts by length, equal; 3 / 3 / 2 videos'),
        (dict(only=0), '000-----', '24.12; 3 videos, 5 left out; sha'),
        (dict(only=1), '---11111', '24.12; 5 videos, 3 left out; sha'),
        (
            dict(threshold='test_mean', test=TEST),
            '00000011',
            'length < 33 frames, the mean test length (uses test statistics) 33.45; 6 / 2 videos',
        ),
    ],
)
def test_length_split(kwargs, expected, note):
    groups, said = assign(Videos(LENGTHS), 'LengthSplit', **kwargs)
    assert ''.join('-' if group < 0 else str(group) for group in groups) == expected
    assert note in said


def test_a_mean_of_frames_is_cut_to_whole_frames():
    """int(mean) = 24: a video of exactly 24 frames belongs to the longer ones."""
    lengths = [24, 24.5, 10, 38.5]
    assert np.mean(lengths) == 24.25
    assert assign(Videos(lengths), 'LengthSplit')[0] == [1, 1, 0, 1]
    assert assign(Videos(lengths), 'LengthSplit', unit='seconds')[0] == [0, 1, 0, 1]


def hash_of(note):
    return re.search(r'sha ([0-9a-f]{8})$', note).group(1)


def test_the_hash_is_of_ids_and_environments():
    one, again = (assign(Videos(LENGTHS), 'LengthSplit')[1] for _ in range(2))
    assert hash_of(one) == hash_of(again)
    others = [
        assign(Videos(LENGTHS, prefix='w'), 'LengthSplit')[1],
        assign(Videos(LENGTHS), 'LengthSplit', rule='equal')[1],
        assign(Videos(LENGTHS), 'LengthSplit', only=0)[1],
        assign(Videos(LENGTHS[::-1]), 'LengthSplit')[1],
    ]
    assert len({hash_of(note) for note in [one, *others]}) == 5


def test_random_split_has_the_sizes_of_its_model():
    videos, like = Videos(LENGTHS), dict(type='mmvtr.LengthSplit')
    groups, note = assign(videos, 'RandomSplit', like=like, seed=3)
    assert Counter(groups) == {0: 3, 1: 5}
    assert note.startswith('RandomSplit: seed 3, sizes of (LengthSplit: 2 parts by length')
    assert '; 3 / 5 videos, 0 left out; sha' in note
    draws = {tuple(assign(videos, 'RandomSplit', like=like, seed=seed)[0]) for seed in range(5)}
    assert len(draws) > 1
    for only in (0, 1):
        expected = [group if group == only else -1 for group in groups]
        assert assign(videos, 'RandomSplit', like=like, seed=3, only=only)[0] == expected
        inside = dict(like, only=only)
        assert assign(videos, 'RandomSplit', like=inside, seed=3)[0] == expected


#: Class (0, 0): mean 3, test mean 31. (1, 1): mean 9, test mean 2. (2, 2) is not tested on.
TRAIN_ACTIONS = [[(0, 0)], [(0, 0)], [(0, 0)], [(1, 1)], [(1, 1)], [(2, 2)], []]
TRAIN_LENGTHS = [1, 3, 5, 16, 2, 50, 60]
TEST_OF_CLASSES = Videos([12, 50, 2, 8], [[(0, 0)], [(0, 0)], [(1, 1)], [(9, 9)]])


def remove(**kwargs):
    kwargs = {**dict(test=TEST_OF_CLASSES, delta=1, alpha=1), **kwargs}
    return assign(Videos(TRAIN_LENGTHS, TRAIN_ACTIONS), 'RemoveByLength', **kwargs)


def test_remove_from_all_classes():
    groups, note = remove()
    assert groups == [-1, -1, 0, -1, 0, 0, 0]
    assert 'delta=1 alpha=1 order=guard_first opposite=False in frames' in note
    assert '2 of 2 classes thinned out (1 classes only in train, 1 only in test)' in note
    assert 'uses test statistics; 4 videos, 3 left out; sha' in note
    assert remove(alpha=2)[0] == [-1, 0, 0, 0, 0, 0, 0]
    assert remove(alpha=2, order='as_printed')[0] == [-1, 0, 0, -1, 0, 0, 0]
    assert remove(alpha=3)[1].count('0 of 2 classes thinned out') == 1
    assert remove(unit='seconds', delta=0.8)[0] == [-1, -1, 0, 0, 0, 0, 0]


def test_remove_from_one_class():
    groups, note = remove(action=[1, 1])
    assert groups == [0, 0, 0, -1, 0, 0, 0] and '1 of 1 classes thinned out' in note
    assert remove(action=(1, 1), opposite=True)[0] == [0, 0, 0, 0, -1, 0, 0]
    assert remove(action=(0, 0), opposite=True)[0] == [0, -1, -1, 0, 0, 0, 0]


def test_remove_as_many_at_random():
    videos = Videos(TRAIN_LENGTHS, TRAIN_ACTIONS)
    like = dict(type='mmvtr.RemoveByLength', test=TEST_OF_CLASSES, delta=1, alpha=1)
    draws = [assign(videos, 'RemoveRandom', like=like, seed=seed) for seed in (0, 0, 1, 2, 3)]
    assert all(Counter(groups) == {-1: 3, 0: 4} for groups, _ in draws)
    assert draws[0] == draws[1] and len({str(groups) for groups, _ in draws}) > 1
    assert draws[2][1].startswith('RemoveRandom: seed 1, as many as (RemoveByLength: delta=1 ')


@pytest.mark.parametrize(
    'type, kwargs, message',
    [
        (
            'LengthSplit',
            dict(rule='halves'),
            "rule must be one of .*'adjusted', 'equal'.*, not 'halves'",
        ),
        ('LengthSplit', dict(threshold='median'), "a number, not 'median'"),
        ('LengthSplit', dict(threshold=30, share=0.5), 'threshold=30 has no use beside'),
        ('LengthSplit', dict(threshold=30, rule='equal'), "no use beside rule='equal'"),
        ('LengthSplit', dict(share=0.5, rule='equal'), r'share=0\.5 has no use in an equal split'),
        ('LengthSplit', dict(threshold='test_mean'), "threshold='test_mean' needs test"),
        ('LengthSplit', dict(test=TEST), "threshold='test_mean' needs test"),
        ('LengthSplit', dict(parts=9), '9 parts cannot be made of 8 videos'),
        ('LengthSplit', dict(parts=1), 'parts must be an int of at least 2'),
        ('LengthSplit', dict(threshold=10), r'no video: the sizes are \[0, 8\]'),
        ('LengthSplit', dict(only=2), r'only=2: the environments are \[0, 1\]'),
        ('RandomSplit', dict(like=dict(type='mmvtr.LengthSplit'), only=-1), 'only=-1: the env'),
        ('RemoveByLength', dict(test=TEST_OF_CLASSES), "^video 'v0' has no actions"),
    ],
)
def test_what_cannot_be_assigned(type, kwargs, message):
    with pytest.raises(ValueError, match=message):
        assign(Videos(LENGTHS), type, **kwargs)


@pytest.mark.parametrize(
    'kwargs, message',
    [
        (dict(action=(2, 2)), r'no class \(2, 2\) \(verb, noun\) is in both train and test'),
        (dict(action=(9, 9)), r'no class \(9, 9\)'),
        (dict(test=Videos([3], [[(9, 9)]])), 'no class .verb, noun. is in both train and test'),
        (dict(test=Videos([3])), "video 'v0' has no actions"),
        (dict(alpha=0), 'alpha must be at least 1, not 0'),
        (dict(order='printed'), "order must be one of .*'guard_first', 'as_printed'"),
    ],
)
def test_what_cannot_be_removed(kwargs, message):
    with pytest.raises(ValueError, match=message):
        remove(**kwargs)


# -- on a planted corpus, through the dataset ----------------------------------------------------

KNOBS = dict(num_train=40, num_val=1, num_test=20, length_confound=0.9)


@pytest.fixture(scope='module')
def planted(tmp_path_factory):
    """A config of the train split of a small corpus."""
    folder = tmp_path_factory.mktemp('planted')
    config = dict(type='mmvtr.PlantedDataset', split='train', data_root=str(folder), **KNOBS)
    return dict(config, video_pipeline=[], text_pipeline=[])


def planted_frames(dataset):
    return np.array([video['num_frames'] for video in dataset.videos])


def test_planted_classes_are_what_captions_say(planted):
    dataset = DATASETS.build(planted)
    verbs, nouns = CLASSES['verb'], CLASSES['noun']
    assert (len(set(verbs.values())), len(set(nouns.values()))) == (15, 6)
    for kind, slot in (('verb', 'action'), ('noun', 'shape')):
        for phrase, meaning in MEANING[slot].items():
            same = {other for other, values in MEANING[slot].items() if values == meaning}
            number = CLASSES[kind][phrase]
            assert same == {other for other, k in CLASSES[kind].items() if k == number}
    for text in dataset.texts:
        words = f' {text["text"]} '
        said = [phrase for phrase in nouns if f' {phrase} ' in words]
        assert text['classes']['noun'] == sorted({nouns[phrase] for phrase in said})
        pairs = [(thing.get('action'), thing.get('shape')) for thing in text['says']]
        assert all(f' {verb} ' in words for verb, _ in pairs if verb)
        assert text['classes']['verb'] == sorted({verbs[verb] for verb, _ in pairs if verb})
        expected = {(verbs[verb], nouns[noun]) for verb, noun in pairs if verb and noun}
        assert text['actions'] == sorted(expected)
    for video, texts in zip(dataset.videos, dataset.texts_of):
        for kind in ('verb', 'noun'):
            expected = {k for t in texts for k in dataset.texts[t]['classes'][kind]}
            assert video['classes'][kind] == sorted(expected)
        actions = {action for t in texts for action in dataset.texts[t]['actions']}
        assert video['actions'] == sorted(actions)
    assert any(not text['classes']['verb'] for text in dataset.texts), 'not all say a verb'
    assert any(k >= 10 for text in dataset.texts for k in text['classes']['verb']), 'hypernyms'


def test_a_dataset_with_length_environments(planted):
    frames = planted_frames(DATASETS.build(planted))
    split = dict(type='mmvtr.LengthSplit')
    dataset = DATASETS.build(dict(planted, records=dict(environments=split)))
    assert (dataset.environments == (frames >= int(frames.mean()))).all()
    alone = DATASETS.build(dict(planted, records=dict(environments=dict(split, only=1))))
    assert [v['num_frames'] for v in alone.videos] == frames[frames >= int(frames.mean())].tolist()
    assert set(alone.environments.tolist()) == {1}
    assert all(0 <= v < len(alone.videos) for text in alone.texts for v in text['video_idx'])
    ids = {text['text_id']: t for t, text in enumerate(dataset.texts)}
    rows = [ids[text['text_id']] for text in alone.texts]
    assert (alone.truth() == dataset.truth()[rows][:, dataset.environments == 1]).all()
    assert (alone.relevance() == dataset.relevance()[rows][:, dataset.environments == 1]).all()


def test_a_dataset_thinned_out_by_its_test_split(planted):
    removal = dict(type='mmvtr.RemoveByLength', test=dict(planted, split='test'), alpha=1, delta=3)
    whole = DATASETS.build(planted)
    thinned = DATASETS.build(dict(planted, records=dict(environments=removal)))
    control = dict(type='mmvtr.RemoveRandom', like=removal)
    drawn = DATASETS.build(dict(planted, records=dict(environments=control)))
    assert len(drawn.videos) == len(thinned.videos) < len(whole.videos)
    assert [v['video_id'] for v in drawn.videos] != [v['video_id'] for v in thinned.videos]


def test_batches_of_a_planted_corpus_are_pure(planted):
    split = dict(type='mmvtr.LengthSplit')
    dataset = dict(planted, records=dict(environments=split), epoch_unit='video')
    loader = Runner.build_dataloader(
        dict(
            dataset=dataset,
            sampler=dict(type='mmvtr.EpochSampler'),
            batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
            batch_size=6,
            collate_fn=dict(type='default_collate'),
        ),
        seed=0,
    )
    batches = [[key.index for key in batch] for batch in loader.batch_sampler]
    assert sorted(index for batch in batches for index in batch) == list(range(40))
    environments = loader.dataset.environments[loader.dataset.videos_with_text]
    assert all(len(set(environments[batch].tolist())) == 1 for batch in batches)
    assert isinstance(loader.dataset, PlantedDataset)
