"""The dataset base: items, views, batches, annotation errors, and randomness over workers."""

import copy
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from torch.utils.data import DataLoader

from children import ROOT
from mmvtr.datasets import (
    BrokenVideoError,
    EpochSampler,
    ItemKey,
    PairValues,
    VideoTextDataset,
    collate_retrieval,
    write_qrels,
)
from mmvtr.datasets.sampling.environments import Environments
from mmvtr.datasets.videos.missing import read_broken, write_broken
from mmvtr.engine.checks.config_checks import component_faults
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor
from mmvtr.registry import DATASETS, TASK_UTILS
from mmvtr.utils import load_config, register_all_modules

#: Text 2 belongs to two videos, video 3 has no text.
VIDEOS = [dict(video_id=name, path=f'{name}.mp4') for name in ('a', 'b', 'c', 'lonely')]
TEXTS = [
    dict(text_id='t0', text='one', video_idx=[0]),
    dict(text_id='t1', text='two words', video_idx=[0]),
    dict(text_id='t2', text='in two videos', video_idx=[1, 2]),
    dict(text_id='t3', text='one', video_idx=[2]),
]


def draw_frames(results: dict) -> dict:
    """Noise from all three generators, as transforms of any library might draw it."""
    base = random.randrange(100) + np.random.randint(100) + int(torch.randint(50, ()))
    results['imgs'] = [np.full((2, 3, 3), base, dtype=np.uint8) for _ in range(2)]
    return results


def word_lengths(results: dict) -> dict:
    results['token_ids'] = np.array([len(word) for word in results['text'].split()])
    return results


class Tiny(VideoTextDataset):
    def __init__(self, videos=VIDEOS, texts=TEXTS, video=draw_frames, **kwargs):
        self.annotations = copy.deepcopy((videos, texts))
        super().__init__([video], [word_lengths], **kwargs)

    def load_annotations(self):
        return self.annotations


def changed(records: list[dict], position: int, **changes) -> list[dict]:
    return [{**r, **changes} if i == position else r for i, r in enumerate(records)]


def test_text_epoch_items():
    dataset = Tiny()
    item = dataset[1]
    assert len(dataset) == 4
    assert item['video']['video_id'] == 'a' and item['video']['video_idx'] == 0
    assert item['video']['frames'].shape == (2, 3, 2, 3)
    assert item['video']['frames'].dtype == torch.uint8
    (text,) = item['texts']
    assert (text['text_idx'], text['text_id'], text['video_idx']) == (1, 't1', [0])
    assert text['tokens'].tolist() == [3, 5] and text['tokens'].dtype == torch.int64


def test_a_runner_takes_a_built_set_as_it_is():
    dataset = Tiny()
    loader = Runner.build_dataloader(
        dict(dataset=dataset, batch_size=1, sampler=dict(type='DefaultSampler', shuffle=False))
    )
    assert loader.dataset is dataset


def test_text_epoch_takes_any_of_the_videos_of_a_text():
    dataset = Tiny()
    seen = {dataset[ItemKey(0, epoch, 2)]['video']['video_id'] for epoch in range(20)}
    assert seen == {'b', 'c'}


def test_video_epoch_visits_videos_with_texts():
    dataset = Tiny(epoch_unit='video')
    assert len(dataset) == 3
    assert [dataset[i]['video']['video_id'] for i in range(3)] == ['a', 'b', 'c']
    seen = {dataset[ItemKey(0, epoch, 0)]['texts'][0]['text_id'] for epoch in range(20)}
    assert seen == {'t0', 't1'}


def test_a_video_may_come_with_all_its_texts():
    dataset = Tiny(epoch_unit='video_with_all_texts')
    assert len(dataset) == 3, 'the video without texts is not visited'
    assert dataset.protocol()['epoch_unit'] == 'video_with_all_texts'
    items = [dataset[ItemKey(0, epoch, 0)] for epoch in (0, 1)]
    for item in items:
        assert [text['text_id'] for text in item['texts']] == ['t0', 't1']
    assert not torch.equal(items[0]['video']['frames'], items[1]['video']['frames'])


def test_a_batch_of_videos_with_all_their_texts():
    dataset = Tiny(epoch_unit='video_with_all_texts')
    batch = collate_retrieval([dataset[i] for i in range(3)])
    samples = batch['data_samples']
    assert samples['video_ids'] == ['a', 'b', 'c']
    assert samples['text_ids'] == ['t0', 't1', 't2', 't2', 't3'], 'once for each of its videos'
    written = {text['text_id']: text['text'] for text in dataset.texts}
    assert samples['text_captions'] == [written[name] for name in samples['text_ids']]
    positives = (samples['text_videos'][:, None] == samples['video_idx'][:, None]).any(-1)
    expected = [[1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 1]]
    assert positives.int().tolist() == expected
    assert [len(x) for x in (batch['inputs']['video'], batch['inputs']['text'])] == [3, 5]


def test_a_broken_video_takes_its_texts_along():
    dataset = Tiny(video=broken_b, on_broken='skip', epoch_unit='video_with_all_texts')
    batch = collate_retrieval([dataset[0], dataset[1]])
    assert batch['data_samples']['text_ids'] == ['t0', 't1']
    assert batch['data_samples']['broken'] == [('b', 'b.mp4: truncated')]


def test_views_hold_each_video_and_each_text_once():
    dataset = Tiny(epoch_unit='video')
    videos, texts = dataset.view('video'), dataset.view('text')
    assert [videos[i]['video_id'] for i in range(len(videos))] == ['a', 'b', 'c', 'lonely']
    assert [texts[i]['text_id'] for i in range(len(texts))] == ['t0', 't1', 't2', 't3']
    assert torch.equal(videos[2]['frames'], dataset.load_video(2)['frames'])
    assert torch.equal(videos[ItemKey(0, 0, 2)]['frames'], videos[2]['frames'])


def test_positives_and_protocol():
    dataset = Tiny()
    expected = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0]]
    np.testing.assert_array_equal(dataset.positives(), np.array(expected, dtype=bool))
    protocol = dataset.protocol()
    assert (protocol['videos'], protocol['texts'], protocol['epoch_unit']) == (4, 4, 'text')
    assert protocol['captions_per_video'] == dict(min=0, mean=1.25, max=2)
    renamed = Tiny(changed(VIDEOS, 3, video_id='alone'))
    assert protocol['ids_sha'] == Tiny().protocol()['ids_sha'] != renamed.protocol()['ids_sha']
    assert dataset.truth() is None and dataset.relevance() is None


def test_batch_of_items_keeps_every_column():
    dataset = Tiny()
    batch = collate_retrieval([dataset[0], dataset[1], dataset[2]])
    samples = batch['data_samples']
    assert samples['video_ids'][:2] == ['a', 'a'] and samples['text_ids'] == ['t0', 't1', 't2']
    assert samples['text_idx'].tolist() == [0, 1, 2]
    assert samples['text_videos'].tolist() == [[0, -1], [0, -1], [1, 2]]
    assert len(batch['inputs']['video']) == len(batch['inputs']['text']) == 3
    positives = (samples['text_videos'][:, None] == samples['video_idx'][:, None]).any(-1)
    assert positives[:2].tolist() == [[True, True, False]] * 2


def test_batches_of_halves():
    dataset = Tiny()
    videos = collate_retrieval([dataset.view('video')[i] for i in (3, 1)])
    assert set(videos['inputs']) == {'video'}
    assert videos['data_samples']['video_idx'].tolist() == [3, 1]
    assert videos['data_samples']['text_videos'].shape == (0, 0)
    texts = collate_retrieval([dataset.view('text')[i] for i in (2, 0)])
    assert set(texts['inputs']) == {'text'}
    assert texts['data_samples']['text_videos'].tolist() == [[1, 2], [0, -1]]


def test_features_are_a_video_input():
    def features(results):
        return {**results, 'features': np.ones((5, 8), dtype=np.float16)}

    frames = Tiny(video=features)[0]['video']['frames']
    assert frames.shape == (5, 8) and frames.dtype == torch.float32


def test_word_features_are_a_text_input():
    class Words:
        def __call__(self, results):
            words = results['text'].split()
            features = np.array([[len(word), 1] for word in words], dtype=np.float16)
            return {**results, 'token_features': features, 'token_ids': [0]}

    dataset = Tiny(epoch_unit='video_with_all_texts')
    dataset.text_pipeline = Words()
    tokens = dataset[0]['texts'][1]['tokens']
    assert tokens.tolist() == [[3, 1], [5, 1]] and tokens.dtype == torch.float32
    batch = VideoTextDataPreprocessor()(collate_retrieval([dataset[i] for i in range(3)]))
    text, mask = batch['inputs']['text'], batch['inputs']['text_mask']
    assert text.shape == (5, 3, 2) and text.dtype == torch.float32
    assert mask.sum(1).tolist() == [1, 2, 3, 3, 1]
    assert text[0].tolist() == [[3, 1], [0, 0], [0, 0]]
    views = collate_retrieval([dataset.view('text')[i] for i in (1, 3)])
    assert set(views['inputs']) == {'text'} and views['inputs']['text'][0].shape == (2, 2)


def test_features_of_several_widths_are_refused():
    batch = dict(inputs=dict(text=[torch.ones(2, 3), torch.ones(2, 4)]), data_samples={})
    with pytest.raises(ValueError, match=r'of different shapes: \[\(3,\), \(4,\)\]'):
        VideoTextDataPreprocessor()(batch)


def test_moment_ratio():
    videos = changed(VIDEOS, 0, duration=8.0)
    texts = changed(TEXTS, 0, start=2.0, end=4.0)
    texts = changed(texts, 2, start=0.0, end=1.0)  # of two videos
    texts = changed(texts, 3, start=0.0, end=1.0)  # of a video whose duration is not known
    np.testing.assert_array_equal(Tiny(videos, texts).moment_ratio(), [0.25] + [np.nan] * 3)
    fifth = Tiny(changed(VIDEOS, 0, duration=1.0), changed(TEXTS, 0, start=0.8, end=1.0))
    assert fifth.moment_ratio()[0] == 0.2 != 1.0 - 0.8
    assert Tiny().moment_ratio() is None


def broken_b(results: dict) -> dict:
    if results['video_id'] == 'b':
        raise BrokenVideoError('b.mp4: truncated')
    return draw_frames(results)


def test_broken_video_raises_or_is_reported():
    with pytest.raises(BrokenVideoError, match='b.mp4'):
        Tiny(video=broken_b).load_video(1)
    dataset = Tiny(video=broken_b, on_broken='skip', epoch_unit='video')
    batch = collate_retrieval([dataset[0], dataset[1], dataset.view('video')[1]])
    assert batch['data_samples']['broken'] == [('b', 'b.mp4: truncated')] * 2
    assert batch['data_samples']['video_ids'] == ['a']
    assert len(batch['inputs']['text']) == 1


def test_batch_without_a_sound_item():
    dataset = Tiny(video=broken_b, on_broken='skip', epoch_unit='video')
    batch = collate_retrieval([dataset[1]])
    assert batch['inputs'] == {} and batch['data_samples']['text_idx'].shape == (0,)


@pytest.mark.parametrize(
    'videos, texts, message',
    [
        (
            changed(VIDEOS, 1, video_id='a'),
            TEXTS,
            r"video 1: a second video 'a', the first is video 0",
        ),
        (
            VIDEOS,
            changed(TEXTS, 1, text_id='t3'),
            r"text 3: a second text 't3', the first is text 1",
        ),
        (
            VIDEOS,
            changed(TEXTS, 1, text='  '),
            r"text 1 .'t1'.: expected a caption, which is not empty",
        ),
        (VIDEOS, changed(TEXTS, 2, video_idx=[]), r"text 2 .'t2'.: belongs to no video"),
        (VIDEOS, changed(TEXTS, 3, video_idx=[4]), r"text 3 .'t3'.: belongs to video 4"),
        (['a', *VIDEOS], TEXTS, 'Tiny: video 0: expected an object of keys and values'),
        ([dict(path='a.mp4')], TEXTS, "Tiny: video 0: expected a key 'video_id'"),
        (VIDEOS, [dict(text_id='0', caption='a', video_idx=[0])], "text 0: expected a key 'text'"),
        (VIDEOS, [dict(text='a', video_idx=[0])], "text 0: expected a key 'text_id'"),
        (VIDEOS, [dict(text_id='0', text='a')], "text 0: expected a key 'video_idx'"),
        *(
            (VIDEOS, changed(TEXTS, 1, video_idx=x), "text 1 .'t1'., video_idx: expected a list of")
            for x in (['a'], 0, 3, [0.0], [True], 'a')
        ),
        (changed(VIDEOS, 1, duration='3'), TEXTS, 'video 1, duration: .* seconds, found .3.'),
        (changed(VIDEOS, 1, duration=None), TEXTS, 'video 1, duration: .* seconds, found None'),
        (VIDEOS, changed(TEXTS, 1, start=2.0, end=1.0), 'text 1: ends at 1.0 s, before its start'),
        (VIDEOS, changed(TEXTS, 1, start=0.5), "text 1: has one of 'start' and 'end'"),
    ],
)
def test_wrong_annotations_name_the_row(videos, texts, message):
    with pytest.raises(ValueError, match=message):
        Tiny(videos, texts)


def test_a_dataset_without_annotations_says_what_it_lacks():
    with pytest.raises(NotImplementedError, match=r'VideoTextDataset must define load_annot'):
        VideoTextDataset(video_pipeline=[], text_pipeline=[])


def test_a_broken_video_is_told_what_to_do_about_it():
    with pytest.raises(
        BrokenVideoError, match="truncated .on_broken='skip' .*check_dataset CONFIG"
    ):
        Tiny(video=broken_b).load_video(1)


def listed(tmp_path, text: str) -> dict[str, str]:
    (tmp_path / 'broken.txt').write_text(text)
    return dict(skip=str(tmp_path / 'broken.txt'))


def test_listed_videos_are_left_out_unread(tmp_path, caplog):
    """Those and no others: b is not listed, and raises."""
    read = []

    def record(results):
        read.append(results['video_id'])
        return broken_b(results)

    record.check = lambda videos: read.append([video['video_id'] for video in videos])
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    try:
        on_broken = listed(tmp_path, 'lonely\tno video stream\nelsewhere\n\na\r\n')
        dataset = Tiny(video=record, on_broken=on_broken)
    finally:
        logger.removeHandler(caplog.handler)
    assert 'Tiny: 2 of 4 videos are left out, as ' in caplog.text
    assert 'lists them: a, lonely; 2 of 4 texts describe them' in caplog.text
    assert 'not those of the whole set' in caplog.text
    known = {'a': f'listed in {on_broken["skip"]}', 'lonely': 'no video stream'}
    assert dataset.known_broken == known
    assert [dataset.load_video(v) for v in (0, 3)] == [dict(broken=item) for item in known.items()]
    assert dataset.load_video(2)['video_id'] == 'c'
    with pytest.raises(BrokenVideoError, match='b.mp4: truncated'):
        dataset.load_video(1)
    assert read == [['b', 'c'], 'c', 'b']
    assert dataset.protocol()['ids_sha'] == Tiny().protocol()['ids_sha'], 'the set is the same'


def test_an_empty_list_leaves_nothing_out(tmp_path, caplog):
    assert Tiny(on_broken=listed(tmp_path, '')).known_broken == {}
    assert 'left out' not in caplog.text


@pytest.mark.parametrize(
    'text, message',
    [
        ('a\nb\treason\na\tx\n', r"broken.txt, line 3: .*got the id again: 'a\\tx'"),
        ('\treason\n', r'broken.txt, line 1: "ID<tab>REASON" expected, .*got no id'),
    ],
)
def test_a_malformed_list_names_the_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        Tiny(on_broken=listed(tmp_path, text))


def test_a_list_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match='no list of broken videos .*none.txt: .*--decode'):
        Tiny(on_broken=dict(skip=str(tmp_path / 'none.txt')))
    with pytest.raises(ValueError, match=f'list of broken videos {tmp_path}: .*directory'):
        Tiny(on_broken=dict(skip=str(tmp_path)))
    (tmp_path / 'binary').write_bytes(b'\xff\xfe')
    with pytest.raises(ValueError, match='binary: expected UTF-8, found UTF-16; save it as UTF-8'):
        Tiny(on_broken=dict(skip=str(tmp_path / 'binary')))


def test_a_list_is_written_as_it_is_read(tmp_path):
    broken = {'-4wsuPC_5_15': 'a.avi: cut\tshort\nhere', 'two words': 'no frame'}
    write_broken(tmp_path / 'list.txt', broken)
    broken['-4wsuPC_5_15'] = 'a.avi: cut short here'
    assert read_broken(tmp_path / 'list.txt') == broken


@pytest.mark.parametrize(
    'option',
    [
        dict(epoch_unit='pair'),
        dict(on_broken='ignore'),
        dict(on_broken=dict(skip=3)),
        dict(on_broken=dict(leave='x')),
        dict(on_broken=None),
    ],
)
def test_unknown_options(option):
    with pytest.raises(ValueError, match=r'epoch_unit|on_broken'):
        Tiny(**option)


def test_frames_of_several_sizes_name_the_video():
    def ragged(results):
        return {**results, 'imgs': [np.zeros((2, 2, 3), np.uint8), np.zeros((2, 4, 3), np.uint8)]}

    with pytest.raises(ValueError, match="video 'a': frames of one size expected"):
        Tiny(video=ragged)[0]


def test_transforms_may_check_all_records_at_construction():
    class Check:
        def check(self, records):
            raise FileNotFoundError(f'{len(records)} of {len(records)} are missing')

    with pytest.raises(FileNotFoundError, match='4 of 4'):
        Tiny(video=Check())


def test_items_leave_the_global_generators_alone():
    dataset = Tiny()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(()).item()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    dataset[ItemKey(4, 2, 0)], dataset.load_video(0), dataset.load_text(0)
    with pytest.raises(BrokenVideoError):
        Tiny(video=broken_b).load_video(1)
    assert expected == (random.random(), np.random.rand(), torch.rand(()).item())


def test_an_item_within_an_item_has_draws_of_its_own():
    inner = Tiny()

    def draws(visit):
        def step(results):
            first = np.random.rand()
            visit()
            return {**results, 'imgs': [np.full((2, 2, 3), 200 * x, np.uint8) for x in
                                        (first, np.random.rand())]}  # fmt: skip

        return Tiny(video=step).load_video(0, ItemKey(4, 2, 0))['frames']

    alone = draws(lambda: None)
    assert torch.equal(draws(lambda: inner.load_video(1)), alone)
    assert alone[0, 0, 0, 0] != alone[1, 0, 0, 0]


#: By text and by video: none of a kind, one twice, one that the other side lacks.
TEXT_CLASSES = [([3], [1, 2]), ([], [5, 5]), ([3, 4], []), ([9], [2])]
VIDEO_CLASSES = [([3], [2, 1]), ([4], [2, 5, 7]), ([], []), ([3], [2])]


def classed(records: list[dict], classes: list[tuple]) -> list[dict]:
    return [{**r, 'classes': dict(verb=v, noun=n)} for r, (v, n) in zip(records, classes)]


def jaccard(a: list[int], b: list[int]) -> float:
    return len(set(a) & set(b)) / len(set(a) | set(b)) if a or b else 0.0


def test_relevance_is_that_of_the_classes():
    dataset = Tiny(classed(VIDEOS, VIDEO_CLASSES), classed(TEXTS, TEXT_CLASSES))
    relevance = dataset.relevance()
    assert relevance.dtype == np.float32
    for t, text in enumerate(TEXT_CLASSES):
        for v, video in enumerate(VIDEO_CLASSES):
            expected = sum(jaccard(*sets) for sets in zip(text, video)) / 2
            assert relevance[t, v] == pytest.approx(expected)
    assert relevance[0, 0] == 1 and relevance[2, 2] == 0 and len(np.unique(relevance)) > 4
    assert Tiny(videos=classed(VIDEOS, VIDEO_CLASSES)).relevance() is None, 'of videos only'


def test_a_component_may_say_the_classes():
    def say(videos, texts):
        for records, classes in ((videos, VIDEO_CLASSES), (texts, TEXT_CLASSES)):
            for record, (verb, noun) in zip(records, classes):
                record['classes'] = dict(verb=verb, noun=noun)
        return videos, texts

    dataset = Tiny(records=dict(classes=say, environments=ByHand(0, -1, 0, 0)))
    whole = Tiny(classed(VIDEOS, VIDEO_CLASSES), classed(TEXTS, TEXT_CLASSES))
    np.testing.assert_array_equal(dataset.relevance(), whole.relevance()[:, [0, 2, 3]])
    item = dataset[0]
    assert item['video']['classes'] == dict(verb=[3], noun=[2, 1])
    assert item['texts'][0]['classes'] == dict(verb=[3], noun=[1, 2])


def test_a_broken_video_keeps_its_classes():
    videos = classed(VIDEOS, VIDEO_CLASSES)
    dataset = Tiny(videos, classed(TEXTS, TEXT_CLASSES), video=broken_b, on_broken='skip')
    expected = dict(broken=('b', 'b.mp4: truncated'), classes=dict(verb=[4], noun=[2, 5, 7]))
    assert dataset.load_video(1) == expected
    assert Tiny(video=broken_b, on_broken='skip').load_video(1).keys() == {'broken'}


def test_lengths():
    frames = [12, 7, 30, 5]
    videos = [{**v, 'num_frames': n, 'duration': n / 8} for v, n in zip(VIDEOS, frames)]
    dataset = Tiny(videos)
    for unit, expected in (('frames', frames), ('seconds', [1.5, 0.875, 3.75, 0.625])):
        lengths = dataset.lengths(unit)
        assert lengths.dtype == np.float64 and lengths.tolist() == expected
    with pytest.raises(
        ValueError, match=r"unit must be one of \['frames', 'seconds'\], not 'hours'"
    ):
        dataset.lengths('hours')
    for name in ('num_frames', 'duration'):
        for video in (dataset.videos[1], dataset.videos[3]):
            del video[name]
    for unit in ('frames', 'seconds'):
        message = rf"Tiny: 2 of 4 videos have no known length in {unit}, e.g. \['b', 'lonely'\]"
        with pytest.raises(ValueError, match=message):
            dataset.lengths(unit)


class ByHand(Environments):
    """Environments as told; keeps what it has seen of the records."""

    def __init__(self, *told):
        self.told = told

    def __call__(self, videos, texts):
        self.seen = copy.deepcopy((videos, texts))
        return super().__call__(videos, texts)

    def assign(self, videos):
        return np.array(self.told), 'as told'


def test_videos_of_no_environment_leave_and_their_texts(caplog):
    logger, by_hand = MMLogger.get_current_instance(), ByHand(-1, 1, -1, 0)
    logger.addHandler(caplog.handler)
    try:
        dataset = Tiny(records=dict(environments=by_hand), epoch_unit='video')
    finally:
        logger.removeHandler(caplog.handler)
    assert 'environments: ByHand: as told; 1 / 1 videos, 2 left out; sha ' in caplog.text
    assert dataset.protocol()['records.environments'] == by_hand.note
    assert by_hand.seen == (VIDEOS, TEXTS), 'it saw all of them'

    assert [video['video_id'] for video in dataset.videos] == ['b', 'lonely']
    assert dataset.environments.tolist() == [1, 0]
    assert [(text['text_id'], text['video_idx']) for text in dataset.texts] == [('t2', [0])]
    assert dataset.positives().tolist() == [[True, False]]
    assert dataset.texts_of == [[0], []] and dataset.videos_with_text == [0] and len(dataset) == 1
    protocol = dataset.protocol()
    assert (protocol['videos'], protocol['texts']) == (2, 1)
    assert protocol['ids_sha'] != Tiny().protocol()['ids_sha']

    item = dataset[0]
    assert item['video']['video_id'] == 'b' and item['video']['environment'] == 1
    assert [text['video_idx'] for text in item['texts']] == [[0]]
    lonely = dataset.view('video')[1]
    assert (lonely['video_idx'], lonely['video_id'], lonely['environment']) == (1, 'lonely', 0)


def test_a_text_keeps_the_videos_that_stay():
    """Their positions move up by the videos that have left before them."""
    dataset = Tiny(records=dict(environments=ByHand(0, -1, 2, 1)))
    rows = [(text['text_id'], text['video_idx']) for text in dataset.texts]
    assert rows == [('t0', [0]), ('t1', [0]), ('t2', [1]), ('t3', [1])]
    assert [dataset[i]['video']['environment'] for i in range(4)] == [0, 0, 2, 2]
    whole = Tiny(records=dict(environments=ByHand(0, 0, 2, 1)))
    assert whole[2]['texts'][0]['video_idx'] == [1, 2]


def test_without_environments():
    dataset = Tiny()
    assert dataset.environments is None and 'records.environments' not in dataset.protocol()
    assert 'environment' not in dataset[0]['video'] and 'classes' not in dataset[0]['video']


@pytest.mark.parametrize(
    'texts, groups, message',
    [
        (changed(TEXTS, 3, video_idx=[4]), (0, 0, 0, 0), "text 3 .'t3'.: belongs to video 4"),
        (changed(TEXTS, 3, video_idx=[]), (0, 0, 0, 0), "text 3 .'t3'.: belongs to no video"),
        (
            TEXTS,
            (0, 1, 1),
            r'Tiny: records.env.*: 4 environments expected, one per video, got \[3\]',
        ),
        (TEXTS, (-1, -1, -1, -1), 'Tiny: records.environments: leaves no video'),
    ],
)
def test_environments_hide_no_wrong_annotation(texts, groups, message):
    with pytest.raises(ValueError, match=message):
        Tiny(texts=texts, records=dict(environments=ByHand(*groups)))


def short_only(videos, texts):
    """Texts of one word."""
    return videos, [text for text in texts if ' ' not in text['text']]


def test_record_transforms_go_in_their_order():
    seen = []

    def see(name):
        return lambda videos, texts: seen.append((name, len(texts))) or (videos, texts)

    parts = dict(before=see('before'), short=short_only, off=None, after=see('after'))
    dataset = Tiny(records=parts)
    assert seen == [('before', 4), ('after', 2)]
    assert [text['text_id'] for text in dataset.texts] == ['t0', 't3']
    assert list(dataset.record_transforms) == ['before', 'short', 'after']


def test_what_learns_from_what_stays_comes_last_wherever_it_is_written():
    """As where a base has it, and a config on it leaves some out."""

    class Count:
        of_what_stays = True

        def __call__(self, videos, texts):
            self.seen = len(texts)
            return videos, texts

    first = Count()
    dataset = Tiny(records=dict(first=first, short=short_only))
    assert first.seen == 2 and list(dataset.record_transforms) == ['short', 'first']


@pytest.mark.parametrize(
    'parts, message',
    [
        ([short_only], 'records: expected parts by name, found '),
        (dict(short='ShortOnly'), "records.short: expected a component, found 'ShortOnly'"),
        (dict(a=lambda v, t: None), r'Tiny: records.a: expected \(videos, texts\) in .* None'),
        (dict(a=lambda v, t: ([], [])), 'Tiny: records.a: leaves no video'),
        (dict(a=lambda v, t: (v[:1], t)), 'records.a, text .*belongs to video 1, but there are'),
        (dict(a=lambda v, t: (v + v, t)), 'records.a, video 4: .*'),
    ],
)
def test_wrong_record_transforms_are_named(parts, message):
    with pytest.raises(ValueError, match=message):
        Tiny(records=parts)


def test_errors_of_a_record_transform_say_of_which_set():
    def lacks(videos, texts):
        raise KeyError('no classes of t0')

    with pytest.raises(KeyError, match='no classes of t0 .Tiny.'):
        Tiny(records=dict(classes=lacks))

    def some(videos, texts):
        videos[0]['environment'] = 1
        return videos, texts

    with pytest.raises(ValueError, match='Tiny: 1 of 4 videos have an environment, not all'):
        Tiny(records=dict(environments=some))


@pytest.mark.parametrize('side', ['video', 'text'])
def test_what_else_a_pipeline_makes(side):
    def add(**extra):
        def step(results):
            draw = dict(video=draw_frames, text=word_lengths)[side]
            return dict(draw(results), **{f'{side}_extra': extra})

        dataset = Tiny()
        setattr(dataset, f'{side}_pipeline', step)
        return dataset[0]

    made = add(graph=np.eye(2, dtype=np.float32), parts=[3, 4])
    half, other = made['video'], made['texts'][0]
    half, other = (half, other) if side == 'video' else (other, half)
    assert half['extra']['graph'].tolist() == [[1, 0], [0, 1]] and 'extra' not in other
    assert half['extra']['graph'].dtype == torch.float32
    assert half['extra']['parts'].tolist() == [3, 4]
    with pytest.raises(ValueError, match=f"{side}_extra: 'mask' is taken, choose another name"):
        add(graph=np.eye(2), mask=np.ones(2))


def epochs(num_workers: int, seed: int) -> list[list]:
    """Ids and pixels of three epochs through one loader, whose workers live on."""
    dataset = Tiny(epoch_unit='video')
    sampler = EpochSampler(dataset, seed=seed)
    loader = DataLoader(
        dataset,
        batch_size=2,
        sampler=sampler,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        collate_fn=collate_retrieval,
    )
    found = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        found.append(
            [
                (
                    batch['data_samples']['video_ids'],
                    batch['data_samples']['text_ids'],
                    [int(video[0, 0, 0, 0]) for video in batch['inputs']['video']],
                )
                for batch in loader
            ]
        )
    return found


def test_any_number_of_workers_gives_the_same_batches():
    alone = epochs(0, seed=7)
    assert epochs(1, seed=7) == alone
    assert epochs(2, seed=7) == alone
    assert alone[0] != alone[1] != alone[2]
    assert epochs(0, seed=8) != alone


def test_judgments_of_any_dataset(tmp_path, caplog):
    """From a file, by direction; pairs of others are counted and said."""
    pairs = PairValues(['t0', 't3', 'other'], ['b', 'c', 'a'], np.array([1.0, 0.0, 1.0]))
    write_qrels(tmp_path / 'q', pairs)
    reader = dict(type='read_qrels', path=str(tmp_path / 'q'))
    dataset = Tiny(judgments=reader)
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    try:
        t2v, v2t = dataset.judgments()
    finally:
        logger.removeHandler(caplog.handler)
    assert t2v is v2t and t2v[0, 1] == 1 and t2v[3, 2] == 0 and np.isnan(t2v).sum() == 16 - 2
    assert '1 of 3 pairs are of texts or videos that the set does not have' in caplog.text
    assert dataset.metainfo['judgments'] == '3 pairs of q'
    only = PairValues(['t1'], ['a'], np.ones(1), 'own')
    t2v, v2t = Tiny(judgments=dict(t2v=reader, v2t=only)).judgments()
    assert np.nansum(v2t) == v2t[1, 0] == 1 == t2v[0, 1]


def test_what_a_set_knows_of_itself_as_judgments():
    class Told(Tiny):
        def truth(self):
            return np.eye(4, dtype=bool)

    assert Tiny().judgments() is None and 'judgments' not in Tiny().metainfo
    assert np.array_equal(Told(judgments='truth').judgments()[0], np.eye(4))
    with pytest.raises(ValueError, match="judgments='truth': Tiny has none"):
        Tiny(judgments='truth').judgments()
    with pytest.raises(ValueError, match="a reader or one of .*, not 'people'"):
        Tiny(judgments='people')
    strange = PairValues(['x'], ['y'], np.ones(1), 'file')
    with pytest.raises(ValueError, match='file: none of 1 pairs belongs to these texts'):
        Tiny(judgments=strange).judgments()


def test_the_dataset_of_the_page(tmp_path, monkeypatch):
    register_all_modules()
    for one in (DATASETS, TASK_UTILS):
        monkeypatch.setattr(one, '_module_dict', dict(one.module_dict))
    monkeypatch.syspath_prepend(str(tmp_path))
    page = (ROOT / 'docs/data.md').read_text()
    section = page.partition('\n## Another dataset')[2].partition('\n## ')[0]
    blocks = re.findall(r'```python\n# (\S+\.py)\n(.*?)```', section, flags=re.DOTALL)
    assert len(blocks) == section.count('```python') == 2
    for file, source in blocks:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(source.replace("_base_ = ['", f"_base_ = ['{ROOT}/configs/"))
    monkeypatch.chdir(tmp_path)
    Path('data/my').mkdir(parents=True)
    for name in ('a.mp4', 'b.mp4'):
        Path('data/my', name).touch()
    long = 'word ' * 21
    Path('data/my/test.txt').write_text(f'data/my/a.mp4 a dog runs\ndata/my/b.mp4 {long}\n')
    cfg = load_config('configs/my_clip4clip.py')
    assert [*component_faults(cfg)] == []
    found = DATASETS.build(cfg.test_dataloader.dataset)
    assert [video['video_id'] for video in found.videos] == ['a', 'b']
    assert [(text['text'], text['video_idx']) for text in found.texts] == [('a dog runs', [0])]
    said = found.protocol()
    assert (said['split'], said['records.short']) == ('test', '1 of 2 texts')
    sys.modules.pop('my_project.datasets', None)
    sys.modules.pop('my_project', None)
