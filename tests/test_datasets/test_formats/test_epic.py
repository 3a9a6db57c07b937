"""EPIC-KITCHENS-100: published numbers from the published files, every pitfall on a miniature."""

import csv

import numpy as np
import pytest

from miniatures import EPIC_CLIPS, EPIC_HEADER, write_epic, write_epic_csv
from mmvtr.datasets import EPICKitchensDataset, ItemKey
from mmvtr.datasets.formats.epic import FOLDER, SPLITS, TEST, TEST_SENTENCES, TRAIN, TRAIN_SENTENCES


def build(root, split, **kwargs) -> EPICKitchensDataset:
    kwargs = dict(video_pipeline=[], text_pipeline=[]) | kwargs
    return EPICKitchensDataset(split, ann_root=str(root), **kwargs)


@pytest.fixture
def mini(tmp_path):
    """Clips to test on that are not those to train on."""
    write_epic(tmp_path)
    return tmp_path


def test_records(mini):
    dataset = build(mini, 'train')
    assert dataset.videos[0] == dict(
        video_id='P01_01_0',
        path=str(mini / 'EPIC-KITCHENS/P01/videos/P01_01.MP4'),
        start=0.14,
        end=3.37,
        duration=pytest.approx(3.23),
        num_frames=194,
        classes=dict(verb=[0], noun=[2, 13]),
        actions=[(0, 2)],
    )
    assert dataset.texts[3] == dict(
        text_id='P02_101_8',
        text='grab cups and plates',
        video_idx=[3],
        verb='grab',
        nouns=['cup', 'plate', 'cup:coffee'],
        classes=dict(verb=[0], noun=[13, 2]),
        actions=[(0, 13)],
    )
    assert dataset.videos[1]['duration'] == 3600 + 2.5 - 60  # hours count
    assert dataset.videos[3]['path'].endswith('P02/videos/P02_101.MP4')
    videos = build(mini, 'train', video_dir='/far', video_suffix='.mp4').videos
    assert videos[0]['path'] == '/far/P01/videos/P01_01.mp4'


def test_training_pairs(mini):
    """Each clip has its own narration, also where another one means the same."""
    dataset = build(mini, 'train')
    np.testing.assert_array_equal(dataset.positives(), np.eye(4))


@pytest.mark.parametrize('split', ['test', 'train_sentences'])
def test_sentences_belong_to_all_clips_of_relevance_1(mini, split):
    dataset = build(mini, split)
    videos = {text['text_id'][3:]: text['video_idx'] for text in dataset.texts}
    expected = dict(test={'_01_0': [0, 3], '_01_1': [1], '_102_7': [2]})
    assert videos == expected.get(split, {'_01_1': [1]})


def test_any_related_text_of_a_clip(mini):
    """With ``related`` a clip meets every text above the threshold, and that pair is a match."""
    steps = dict(
        video_pipeline=[lambda record: dict(record, features=np.zeros((1, 2)))],
        text_pipeline=[lambda record: dict(record, token_ids=np.zeros(1, dtype=np.int64))],
    )
    dataset = build(mini, 'train', epoch_unit='video', related=0.25, **steps)
    relevance = dataset.relevance()
    for v in range(4):
        items = [dataset[ItemKey(0, epoch, v)] for epoch in range(40)]
        met = {item['texts'][0]['text_idx'] for item in items}
        assert met == set(np.flatnonzero(relevance[:, v] > 0.25)) and v in met
        assert all(v in item['texts'][0]['video_idx'] for item in items)
    assert relevance[1, 2] == 0.5 and relevance[0, 1] == 0.25  # a noun of one; of two
    with pytest.raises(ValueError, match="related=0.1 needs epoch_unit='video'"):
        build(mini, 'train', related=0.1)


def test_repeated_words_are_two_texts(mini):
    """Sentences are rows: two of the same words belong to different clips."""
    dataset = build(mini, 'test')
    texts = [(text['text'], text['classes'], text['video_idx']) for text in dataset.texts]
    assert texts[1:] == [
        ('put down cup', dict(verb=[1], noun=[13]), [1]),
        ('put down cup', dict(verb=[2], noun=[13]), [2]),  # not what its own row narrates
    ]


def test_a_row_twice(mini):
    write_epic_csv(mini, TEST_SENTENCES, 'narration_id,narration', *['P31_01_0,take plate'] * 2)
    with pytest.raises(ValueError, match=r"sentence.csv: line 3: a second text 'P31_01_0'"):
        build(mini, 'test')
    write_epic_csv(mini, TRAIN, EPIC_HEADER, EPIC_CLIPS[0], EPIC_CLIPS[0])
    with pytest.raises(ValueError, match=r"train.csv: line 3: a second clip 'P01_01_0'"):
        build(mini, 'train')


@pytest.mark.parametrize(
    'old, new, message',
    [
        ('P01_01_0,', '7,', "expected an id 'PARTICIPANT_VIDEO_NUMBER', found '7'"),
        ('8,202', '202,8', 'ends before it begins: frames 202 to 8, 00:00:00.14 to'),
        ('8,202', '8,8', 'ends before it begins: frames 8 to 8'),
        ('00:00:03.37', '00:00:00.14', 'ends before it begins: frames 8 to 202, .* to 00:00:00.14'),
        ('8,202', '8,many', "'stop_frame': expected a number from 0, found 'many'"),
        ('8,202', '-8,202', "'start_frame': expected a number from 0, found '-8'"),
        ('00:00:03.37', '3.37', "'stop_timestamp': expected a time HH:MM:SS.ss, found '3.37'"),
        ('00:00:03.37', '00:00:xx', "expected a time in seconds, found 'xx'"),
        ('take,0,', 'take,,', "'verb_class': expected a number from 0, found ''"),
        ('plate,2,', 'plate,1.5,', "'noun_class': expected a number from 0, found '1.5'"),
        (
            '[2, 13]',
            '[]',
            r"'all_noun_classes': expected .*, not empty, found '\[\]",
        ),
        ('[2, 13]', "['2']", "'all_noun_classes': expected a list of numbers from 0"),
        ('[2, 13]', '[True]', "'all_noun_classes': expected a list of numbers from 0"),
        ('[2, 13]', '[-1]', "'all_noun_classes': expected a list of numbers from 0"),
        ('[2, 13]', '2', "'all_noun_classes': expected a list of numbers .* found '2'"),
        ('[2, 13]', '[2, 13', "'all_noun_classes': expected a list of numbers from 0"),
        (
            "['plate', 'cup']",
            'plate',
            "'all_nouns': expected a list of strings, .*found 'plate'",
        ),
        ("['plate', 'cup']", "[print('x')]", "'all_nouns': expected a list of strings"),
        ("['plate', 'cup']", '[' * 9999, "'all_nouns': expected a list of strings"),
    ],
    ids=lambda value: value[:20],
)
def test_bad_rows(mini, capsys, old, new, message):
    """The error names file, row and clip; nothing that stands in a list is run."""
    assert old in EPIC_CLIPS[0]
    write_epic_csv(mini, TRAIN, EPIC_HEADER, EPIC_CLIPS[1], EPIC_CLIPS[0].replace(old, new))
    with pytest.raises(ValueError, match=rf'retrieval_train.csv: line 3, .*{message}'):
        build(mini, 'train')
    assert capsys.readouterr().out == ''


def test_bad_files(mini):
    write_epic_csv(
        mini, TEST_SENTENCES, 'narration_id,narration', 'P31_01_0,take it', 'P99_1_1,take it'
    )
    with pytest.raises(ValueError, match=r"sentence.csv: line 3: .*test.csv has no clip 'P99_"):
        build(mini, 'test')
    write_epic_csv(mini, TRAIN, EPIC_HEADER.replace('all_nouns', 'nouns'), *EPIC_CLIPS)
    with pytest.raises(ValueError, match='expected columns .*all_nouns'):
        build(mini, 'train')
    (mini / TRAIN).unlink()
    with pytest.raises(FileNotFoundError, match=f'needs .*{TRAIN}.*{TEST_SENTENCES}.*P01_01.MP4'):
        build(mini, 'train')


def test_test_clips_are_not_trained_on(mini):
    write_epic_csv(mini, TRAIN, EPIC_HEADER, *EPIC_CLIPS, EPIC_CLIPS[0].replace('P0', 'P3'))
    with pytest.raises(ValueError, match=r"1 videos of .*train.csv are also in .*\['P31_01_0'\]"):
        build(mini, 'train')


def test_missing_features_are_named(mini):
    (mini / 'tbn').mkdir()
    np.save(mini / 'tbn/P01_01_1.npy', np.ones((25, 2), np.float32))
    pipeline = [dict(type='LoadFeatures', path=str(mini / 'tbn'))]
    with pytest.raises(KeyError, match="no features of 3 of 4 videos, e.g. .*'P01_01_0'"):
        build(mini, 'train', video_pipeline=pipeline)


def clock(seconds: str) -> str:
    minutes, rest = divmod(float(seconds), 60)
    return f'{int(minutes) // 60:02d}:{int(minutes) % 60:02d}:{rest:05.2f}'


@pytest.fixture(scope='module')
def published(shared, tmp_path_factory):
    """The published files, and the training clips in the format of their absent csv.

    These lack words and all nouns but the first.
    """
    root, source = tmp_path_factory.mktemp('epic'), shared / 'data/EPIC100'
    (root / FOLDER).mkdir()
    for name in (TRAIN_SENTENCES, TEST, TEST_SENTENCES):
        (root / name).symlink_to(source / name)
    with open(source / 'EPIC_100_train_rebuilt.csv') as file, open(root / TRAIN, 'w') as out:
        out.write(EPIC_HEADER + '\n')
        for row in csv.DictReader(file):
            out.write(
                '{narration_id},P,{video_id},,{0},{1},{start_frame},{stop_frame},x,x,{verb_class},'
                "x,{noun_class},['x'],[{noun_class}]\n".format(
                    clock(row['ts']), clock(row['te']), **row
                )
            )
    return root


@pytest.fixture(scope='module')
def train(published):
    return build(published, 'train')


def test_published_test_set(published):
    dataset = build(published, 'test')
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS['test'][2:] == (9668, 3842)
    own = [len(text['video_idx']) for text in dataset.texts]
    assert (min(own), round(np.mean(own), 2)) == (1, 16.28)
    assert len({text['text'] for text in dataset.texts}) == 3835
    names = [video['video_id'] for video in dataset.videos]
    assert all(names.index(t['text_id']) in t['video_idx'] for t in dataset.texts[::50])
    assert np.mean([video['num_frames'] for video in dataset.videos]) == pytest.approx(
        220.988, abs=1e-3
    )


@pytest.mark.nightly
def test_published_training_set(train, published, shared):
    """Two numbers of the frame-length paper: 95 clips of mean 177.11, and its first split."""
    assert (len(train.videos), len(train.texts)) == SPLITS['train'][2:]
    lengths = np.array([video['num_frames'] for video in train.videos])
    rubbish = np.array([video['actions'] == [(0, 54)] for video in train.videos])
    assert rubbish.sum() == 95 and lengths[rubbish].mean() == pytest.approx(177.105, abs=1e-3)
    assert int(lengths.mean()) == 172 and (lengths < 172).sum() == 50281
    test = build(published, 'test')
    actions = [{video['actions'][0] for video in each.videos} for each in (train, test)]
    assert len(actions[0] & actions[1]) == 1114
    with open(shared / 'data/EPIC100/EPIC_100_train_rebuilt.csv') as file:
        exact = [row['how'] == 'exact' for row in csv.DictReader(file)]
    assert sum(exact) == 58139  # of these, frames and seconds tell the same length
    rate = lengths / np.array([video['duration'] for video in train.videos])
    assert np.percentile(rate[exact], [1, 99]) == pytest.approx([50, 60], rel=0.05)


@pytest.mark.nightly
def test_published_training_sentences(published):
    dataset = build(published, 'train_sentences')
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS['train_sentences'][2:]
    assert len({text['text'] for text in dataset.texts}) == 15968
