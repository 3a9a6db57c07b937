"""Denoising masks: which captions may be drawn in training."""

import json

import pytest

from mmvtr.datasets import ItemKey, VideoTextDataset

VIDEOS = [dict(video_id=name) for name in ('a', 'b', 'lonely')]
TEXTS = [
    dict(text_id='t0', text='one', video_idx=[0]),
    dict(text_id='t1', text='two', video_idx=[0]),
    dict(text_id='t2', text='of two videos', video_idx=[0, 1]),
    dict(text_id='t3', text='three', video_idx=[1]),
]


class Small(VideoTextDataset):
    def __init__(self, **kwargs):
        super().__init__(
            [lambda r: {**r, 'features': [[0.0]]}], [lambda r: {**r, 'token_ids': [1]}], **kwargs
        )

    def load_annotations(self):
        return [dict(v) for v in VIDEOS], [dict(t) for t in TEXTS]


@pytest.fixture
def masks(tmp_path):
    """Writes a file, and makes a dataset of it."""

    def make(content, **kwargs):
        (tmp_path / 'masks.json').write_text(json.dumps(content))
        masks = dict(type='DrawableCaptions', path=str(tmp_path / 'masks.json'))
        return Small(records=dict(denoising=masks), **kwargs)

    return make


BY_TEXT = dict(t0=True, t1=False, t2=True, t3=False)


@pytest.mark.parametrize(
    'content, left',
    [
        (BY_TEXT, ['t0', 't2']),
        (dict(a=[False, True, False], b=[False, True]), ['t1', 't3']),
        (dict(a=[True, False, False], b=[True, False]), ['t0', 't2']),  # t2 by its other video
    ],
)
def test_the_others_are_never_drawn(masks, content, left):
    dataset = masks(content, epoch_unit='video')
    assert [text['text_id'] for text in dataset.texts] == left
    drawn = {
        dataset[ItemKey(0, epoch, i)]['texts'][0]['text_id']
        for epoch in range(20)
        for i in range(len(dataset))
    }
    assert drawn == {*left} and len(dataset) == 2
    assert dataset.protocol()['records.denoising'] == '2 of 4 texts may be drawn'
    assert 'records.denoising' not in Small().protocol()
    whole = masks(content, epoch_unit='video_with_all_texts')
    assert {text['text_id'] for i in range(2) for text in whole[i]['texts']} == {*left}
    assert len(masks(content)) == 2


@pytest.mark.parametrize(
    'content, message',
    [
        (dict(BY_TEXT, t2=False), r"masks.json: leaves 1 videos without a caption, e.g. \['b'\]"),
        (
            dict(a=[True] * 3, b=[False] * 2, c=[True]),
            r"1 ids are not among the 2 videos .*\['c'\]",
        ),
        (dict(BY_TEXT, t9=True), r"1 ids are not among the 4 texts of the set, e.g. \['t9'\]"),
        (dict(t0=True), r"lacks 3 of the 4 texts of the set, e.g. \['t1', 't2', 't3'\]"),
        (dict(a=[True] * 3), r"lacks 1 of the 2 videos with captions .*\['b'\]"),
        (dict(BY_TEXT, t1=1), "'t1': expected true or false, found 1"),
        (dict(a=[True] * 2, b=[True] * 2), "'a': expected one value per caption, 3, found 2"),
        (dict(a=[True] * 3, b=[1, 0]), r"'b': expected a list of true and false, found \[1, 0\]"),
        (dict(a=[True] * 3, b=True), "'b': expected a list of true and false, found True"),
        ([True], r'expected an object of keys and values, found \[True\]'),
    ],
)
def test_wrong_masks_are_named(masks, content, message):
    with pytest.raises(ValueError, match=message) as raised:
        masks(content)
    assert len(str(raised.value)) < 500


def test_no_such_file():
    with pytest.raises(FileNotFoundError, match='no such denoising masks: nowhere.json'):
        Small(records=dict(denoising=dict(type='DrawableCaptions', path='nowhere.json')))
