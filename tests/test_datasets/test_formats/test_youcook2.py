"""YouCook2: published counts from the published json, every pitfall on a miniature."""

import logging

import numpy as np
import pytest
from mmengine.logging import MMLogger

from miniatures import write_youcook2, youcook2_database
from mmvtr.datasets import YouCook2Dataset
from mmvtr.datasets.formats.youcook2 import ANNOTATIONS, FRAMES, SPLITS


def build(root, split, **kwargs) -> YouCook2Dataset:
    return YouCook2Dataset(split, ann_root=str(root), video_pipeline=[], text_pipeline=[], **kwargs)


@pytest.fixture
def database():
    return youcook2_database()


@pytest.fixture
def mini(tmp_path, database):
    """The official layout."""
    write_youcook2(tmp_path, database)
    return tmp_path


def test_records(mini):
    dataset = build(mini, 'train')
    path = str(mini / 'videos/a_-b.mp4')
    assert dataset.videos == [
        dict(video_id='a_-b_0', path=path, start=3, end=13, duration=10),
        dict(video_id='a_-b_1', path=path, start=20, end=24, duration=4),
        dict(video_id='d_0', path=str(mini / 'videos/d.mp4'), start=5, end=6, duration=1),
    ]
    assert dataset.texts[1] == dict(text_id='a_-b_1', text='step 1', video_idx=[1])
    assert [video['video_id'] for video in build(mini, 'val').videos] == ['c_0']


@pytest.fixture
def log(caplog):
    """What mmengine's logger says."""
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.INFO, logger=logger.name):
        yield caplog
    logger.removeHandler(caplog.handler)


def test_frames_of_a_clip(mini, log):
    """The clip's part of its video's frames, at the rate of the video; the log says which."""
    (mini / FRAMES).write_text('a_-b,100.0,2997\nd,10,4\nc,9,90\nz,1,1\n')
    assert [video['num_frames'] for video in build(mini, 'train').videos] == [300, 120, 1]
    assert f'YouCook2 train: numbers of frames are taken from {mini / FRAMES}' in log.text
    (mini / FRAMES).unlink()
    assert 'num_frames' not in build(mini, 'train').videos[0]
    assert f'no {mini / FRAMES}, so no clip has a number of frames' in log.text


def test_other_counts_than_published(mini, log):
    build(mini, 'val')
    assert 'has 1 videos and 1 texts here, published: 3492 and 3492' in log.text


@pytest.mark.parametrize(
    'content, message',
    [
        ('a_-b,9,90\n', r"lacks 1 videos of .*trainval.json, e.g. \['d'\]"),
        ('a_-b,9\n', 'line 1: expected 3 fields, found'),
        ('a_-b,9,90\nd,0,9\n', "line 2: expected a duration above 0 s, found '0'"),
        ('a_-b,nine,90\n', "line 1: expected a time in seconds, found 'nine'"),
    ],
)
def test_bad_frames(mini, content, message):
    (mini / FRAMES).write_text(content)
    with pytest.raises(ValueError, match=f'{FRAMES}.*{message}'):
        build(mini, 'train')


@pytest.mark.parametrize(
    'change, message',
    [
        (dict(segment=[9, 3]), "'d', annotation 0: the segment ends before it begins: 9.0 to 3.0"),
        (dict(segment=[3, 3]), 'ends before it begins'),
        (dict(segment=[-1, 3]), 'expected a time in seconds, found -1'),
        (dict(segment=[3]), r'expected start and end, found \[3\]'),
        (dict(sentence=None), 'expected a string, found None'),
        (dict(id=None), "'d', annotation 0, 'id': expected a number from 0, found None"),
    ],
)
def test_bad_segments(mini, database, change, message):
    database['d']['annotations'][0].update(change)
    write_youcook2(mini, database)
    with pytest.raises(ValueError, match=f'{ANNOTATIONS}: .*{message}'):
        build(mini, 'train')


def test_bad_files(mini, database):
    database['d']['annotations'].append(database['d']['annotations'][0])
    write_youcook2(mini, database)
    with pytest.raises(ValueError, match="'d', annotation 1: a second segment 'd_0'"):
        build(mini, 'train')
    database['d'] = dict(subset='training')
    write_youcook2(mini, database)
    with pytest.raises(ValueError, match="'d': expected a key 'annotations', found .'subset'"):
        build(mini, 'train')
    (mini / ANNOTATIONS).write_text('{}')
    with pytest.raises(ValueError, match="expected a key 'database'"):
        build(mini, 'train')
    (mini / ANNOTATIONS).unlink()
    with pytest.raises(
        FileNotFoundError, match=f'needs .*{ANNOTATIONS}.*{FRAMES}.*GLd3aX16zBg.mp4'
    ):
        build(mini, 'train')
    with pytest.raises(ValueError, match="no split 'test'; expected one of .*'train', 'val'"):
        build(mini, 'test')


@pytest.mark.parametrize('split', SPLITS)
def test_published_counts(shared, split):
    dataset = build(shared / 'data/YouCook2', split)
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS[split][2:]
    assert [video['video_id'] for video in dataset.videos] == [t['text_id'] for t in dataset.texts]
    seconds = np.array([video['duration'] for video in dataset.videos])
    frames = np.array([video['num_frames'] for video in dataset.videos])
    assert seconds.min() >= 1 and (5 < frames / seconds).all() and (frames / seconds < 61).all()
    expected = dict(train=(19.620, 553.34), val=(19.642, 550.83))[split]
    assert (seconds.mean(), frames.mean()) == pytest.approx(expected, rel=1e-4)
