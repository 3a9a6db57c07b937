"""MSVD: published counts from the published files; both caption files on a miniature."""

import collections
import json
import pickle

import numpy as np
import pytest

from miniatures import MSVD_CAPTIONS as CAPTIONS
from miniatures import write_msvd
from mmvtr.datasets import MSVDDataset
from mmvtr.datasets.formats.msvd import SPLITS


def build(root, split, **kwargs) -> MSVDDataset:
    return MSVDDataset(split, ann_root=str(root), video_pipeline=[], text_pipeline=[], **kwargs)


@pytest.fixture
def mini(tmp_path):
    """Four clips."""
    write_msvd(tmp_path)
    return tmp_path


def write_pickle(root, value, **kwargs) -> None:
    (root / 'captions_msvd.json').unlink(missing_ok=True)
    (root / 'raw-captions.pkl').write_bytes(pickle.dumps(value, **kwargs))


@pytest.mark.parametrize('split', SPLITS)
def test_published_counts(shared, split):
    dataset = build(shared / 'data/MSVD', split)
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS[split][2:]
    names = (shared / f'data/MSVD/collaborative-experts/{split}_list.txt').read_text().split()
    assert [video['video_id'] for video in dataset.videos] == names


def test_captions_are_those_of_the_file(shared):
    dataset = build(shared / 'data/MSVD', 'test')
    found = collections.defaultdict(list)
    for text in dataset.texts:
        found[dataset.videos[text['video_idx'][0]]['video_id']].append(text['text'])
    source = json.loads((shared / 'data/MSVD/captions_msvd.json').read_text())
    assert dict(found) == {name: source[name] for name in found} and len(found) == 670


def test_a_pickle_of_words_reads_as_the_json(shared, tmp_path):
    for split in SPLITS:
        (tmp_path / f'{split}_list.txt').symlink_to(shared / f'data/MSVD/{split}_list.txt')
    source = json.loads((shared / 'data/MSVD/captions_msvd.json').read_text())
    write_pickle(tmp_path, {name: [c.split(' ') for c in cs] for name, cs in source.items()})
    assert build(tmp_path, 'val').texts == build(shared / 'data/MSVD', 'val').texts


def test_the_miniature(mini):
    dataset = build(mini, 'train')
    assert [video['video_id'] for video in dataset.videos] == ['b_1_9', 'a_0_5']
    assert dataset.videos[0]['path'] == str(mini / 'videos/b_1_9.avi')
    assert [(t['text_id'], t['text'], t['video_idx']) for t in dataset.texts] == [
        ('b_1_9#0', 'a man sings', [0]),
        ('a_0_5#0', 'a cat runs', [1]),
        ('a_0_5#1', 'a cat is running', [1]),
        ('a_0_5#2', 'a cat runs', [1]),  # said twice, two rows
    ]
    np.testing.assert_array_equal(dataset.positives(), [[1, 0], [0, 1], [0, 1], [0, 1]])
    other = build(mini, 'test', video_dir='clips', video_suffix='.mp4')
    assert other.videos[0]['path'] == str(mini / 'clips/d_3_4.mp4')


@pytest.mark.parametrize('protocol', range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_every_protocol(mini, protocol):
    expected = build(mini, 'train').texts
    mixed = {**CAPTIONS, 'b_1_9': [['a', 'man', 'sings']]}
    write_pickle(mini, mixed, protocol=protocol)
    assert build(mini, 'train').texts == expected


def test_a_pickle_that_runs_something_is_refused(mini):
    class Payload:
        def __reduce__(self):
            return (open, (str(mini / 'made_by_the_pickle'), 'w'))

    write_pickle(mini, dict(a=[Payload()]))
    with pytest.raises(ValueError, match=r'raw-captions.pkl: not a pickle .*asks for .*io.*open'):
        build(mini, 'train')
    assert not (mini / 'made_by_the_pickle').exists()


@pytest.mark.parametrize(
    'content',
    [
        pickle.dumps(collections.OrderedDict(CAPTIONS)),
        pickle.dumps(CAPTIONS)[:-20],
        b'\x80\x04\x88Rb.',
        b'',
        b'not a pickle',
    ],
    ids=['a class', 'cut off', 'a call of True', 'empty', 'text'],
)
def test_a_pickle_of_something_else(mini, content):
    write_pickle(mini, {})
    (mini / 'raw-captions.pkl').write_bytes(content)
    with pytest.raises(ValueError, match='raw-captions.pkl: not a pickle of plain captions: .'):
        build(mini, 'train')


@pytest.mark.parametrize(
    'content, message',
    [
        ([1], 'raw-captions.pkl: expected an object of keys and values, found .1'),
        ({**CAPTIONS, 'a_0_5': 'a cat'}, "pkl: 'a_0_5': expected a list, found 'a cat'"),
        ({**CAPTIONS, 'a_0_5': ['a', 7]}, "pkl: 'a_0_5', caption 1: expected a list of strings"),
        (
            {**CAPTIONS, 'a_0_5': [['a', b'b']]},
            "'a_0_5', caption 0: expected a list of strings",
        ),
    ],
)
def test_malformed_captions(mini, content, message):
    write_pickle(mini, content)
    with pytest.raises(ValueError, match=message):
        build(mini, 'train')


def test_json_is_read_like_the_pickle(mini):
    (mini / 'captions_msvd.json').write_text(json.dumps({**CAPTIONS, 'a_0_5': {'0': 'a cat'}}))
    with pytest.raises(ValueError, match="captions_msvd.json: 'a_0_5': expected a list"):
        build(mini, 'val')


def test_missing_captions(mini):
    (mini / 'captions_msvd.json').unlink()
    with pytest.raises(
        FileNotFoundError,
        match='needs .*captions_msvd.json. Expected in .* or raw-captions.pkl; .*_5_15.avi',
    ):
        build(mini, 'test')
