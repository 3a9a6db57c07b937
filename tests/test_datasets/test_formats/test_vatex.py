"""VATEX: published lists with made-up captions, as the json is not at hand; real entries of it."""

import json

import pytest

from miniatures import vatex_entry, write_vatex, write_vatex_captions
from mmvtr.datasets import VATEXDataset
from mmvtr.datasets.formats.vatex import SPLITS, TRAINING, VALIDATION


def build(root, split, **kwargs) -> VATEXDataset:
    return VATEXDataset(split, ann_root=str(root), video_pipeline=[], text_pipeline=[], **kwargs)


@pytest.fixture
def mini(tmp_path):
    """The second test list mixes val and test."""
    write_vatex(tmp_path)
    return tmp_path


@pytest.mark.parametrize('split', SPLITS)
def test_published_counts(shared, tmp_path, split):
    """The real lists partition the official training and validation clips."""
    root = shared / 'data/VATEX'
    names = {}
    for each in SPLITS.values():
        names[each.table] = (root / each.table).read_text().split()
        (tmp_path / each.table).symlink_to(root / each.table)
    official = {
        TRAINING: names['train_list.txt'],
        VALIDATION: sorted(names['val_list.txt'] + names['test_list.txt']),
    }
    write_vatex_captions(tmp_path, SPLITS[split].source, official[SPLITS[split].source])
    dataset = build(tmp_path, split)
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS[split][2:]
    assert [video['video_id'] for video in dataset.videos] == names[SPLITS[split].table]


def test_real_entries(shared, tmp_path):
    source = shared / 'data/VATEX/format_evidence/videocap5data.json'
    (tmp_path / VALIDATION).symlink_to(source)
    entries = json.loads(source.read_text())
    (tmp_path / 'test_list.txt').write_text('\n'.join(row['videoID'] for row in entries))
    found = build(tmp_path, 'test')
    assert [text['text'] for text in found.texts] == [c for row in entries for c in row['enCap']]
    assert (len(found.videos), {len(texts) for texts in found.texts_of}) == (5, {10})


def test_the_miniature(mini):
    dataset = build(mini, 'val')
    assert [video['video_id'] for video in dataset.videos] == ['d', 'c']
    assert dataset.videos[0]['path'] == str(mini / 'videos/d.mp4')
    assert len(dataset.texts) == 20
    assert dataset.texts[11] == dict(text_id='c#1', text='c caption 1', video_idx=[1])
    assert [video['video_id'] for video in build(mini, 'test_1k5').videos] == ['c', 'f']


def test_training_needs_no_list(mini):
    names = ['a_000000_000010', 'b_000001_000011']
    assert [video['video_id'] for video in build(mini, 'train').videos] == names
    (mini / 'train_list.txt').write_text(names[1])
    assert [video['video_id'] for video in build(mini, 'train').videos] == names[1:]


@pytest.mark.parametrize('split', ['val', 'test', 'test_1k5'])
def test_other_splits_need_theirs(mini, split):
    (mini / SPLITS[split].table).unlink()
    with pytest.raises(FileNotFoundError, match=f'needs .*{SPLITS[split].table}. Expected in'):
        build(mini, split)


@pytest.mark.parametrize('listed_in', ['val_list.txt', 'test_list.txt', 'test1k5_sec_list.txt'])
def test_training_clips_among_the_tested(mini, listed_in):
    (mini / listed_in).write_text('b_000001_000011')
    with pytest.raises(ValueError, match=f"1 videos of {TRAINING} are also in {listed_in}.*'b_0"):
        build(mini, 'train')


@pytest.mark.parametrize(
    'row, message',
    [
        (dict(videoID='x'), "entry 1: expected a key 'enCap', found"),
        (dict(videoID=3, enCap=[]), "entry 1, 'videoID': expected an id, .* found 3"),
        ('x', "entry 1: expected an object of keys and values, found 'x'"),
        (dict(videoID='x', enCap=['a', 1]), "entry 1, 'enCap' 1: expected a string, found 1"),
        (vatex_entry('c'), "entry 1: a second clip 'c', the first is entry 0"),
    ],
)
def test_malformed_entry(mini, row, message):
    (mini / VALIDATION).write_text(json.dumps([vatex_entry('c'), row]))
    with pytest.raises(ValueError, match=f'{VALIDATION}: {message}'):
        build(mini, 'val')


def test_json_that_is_none(mini):
    (mini / VALIDATION).write_text(json.dumps(dict(c=vatex_entry('c'))))
    with pytest.raises(ValueError, match=f'{VALIDATION}: expected a list of objects, found ..c'):
        build(mini, 'val')
    (mini / VALIDATION).write_bytes(b'[{"videoID": "\xff')
    with pytest.raises(ValueError, match=f'{VALIDATION}: not UTF-8: .* at byte 14'):
        build(mini, 'val')
