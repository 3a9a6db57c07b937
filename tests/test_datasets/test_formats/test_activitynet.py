"""ActivityNet Captions: published counts, paragraphs of the files, a miniature."""

import json

import pytest

from mmvtr.datasets import ActivityNetDataset
from mmvtr.datasets.formats.activitynet import SPLITS

TRAIN = {
    'v_b': dict(duration=9.0, timestamps=[[4, 9], [0, 4]], sentences=['It ends. ', ' It begins.']),
    'v_a': dict(duration=5.0, timestamps=[[0, 5]], sentences=['A dog\nruns.']),
}
VAL1 = {'v_c': dict(duration=5.0, timestamps=[[0, 5]], sentences=['A cat sleeps.'])}
VAL2 = {'v_c': dict(duration=5.0, timestamps=[[0, 5]], sentences=['The cat is tired.'])}


def build(root, split, **kwargs) -> ActivityNetDataset:
    return ActivityNetDataset(
        split, ann_root=str(root), video_pipeline=[], text_pipeline=[], **kwargs
    )


@pytest.fixture
def mini(tmp_path):
    """The official layout with two videos to train on and one to test on, described twice."""
    for name, content in dict(train=TRAIN, val_1=VAL1, val_2=VAL2).items():
        (tmp_path / f'{name}.json').write_text(json.dumps(content))
    return tmp_path


@pytest.mark.parametrize('split', SPLITS)
def test_published_counts(shared, split):
    root = shared / 'data/ActivityNetCaptions'
    dataset = build(root, split)
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS[split][2:]
    source = json.loads((root / SPLITS[split].source).read_text())
    assert [video['video_id'] for video in dataset.videos] == list(source), 'lists and json agree'
    for text, entry in zip(dataset.texts, source.values()):
        assert text['text'] == ' '.join(sentence.strip() for sentence in entry['sentences'])


def test_the_miniature(mini):
    dataset = build(mini, 'train')
    assert dataset.texts == [
        dict(text_id='v_b', text='It ends. It begins.', video_idx=[0]),  # as the file has them
        dict(text_id='v_a', text='A dog\nruns.', video_idx=[1]),
    ]
    assert dataset.videos == [
        dict(video_id=name, path=str(mini / f'videos/{name}.mp4')) for name in ('v_b', 'v_a')
    ]
    assert build(mini, 'val1').texts[0]['text'] == 'A cat sleeps.'
    assert build(mini, 'val2').texts[0]['text'] == 'The cat is tired.'


def test_a_list_chooses_and_orders(mini):
    (mini / 'collaborative-experts').mkdir()
    listed = mini / 'collaborative-experts/train_list.txt'
    listed.write_text('v_a\n')
    assert [video['video_id'] for video in build(mini, 'train').videos] == ['v_a']
    listed.write_text('v_a\nv_gone\n')
    with pytest.raises(ValueError, match=r"know 1 of 2 videos, e.g. \['v_gone'\] .*train_list.txt"):
        build(mini, 'train')


@pytest.mark.parametrize('tested', ['val_1.json', 'val_2.json'])
def test_training_videos_among_the_tested(mini, tested):
    (mini / tested).write_text(json.dumps({'v_a': VAL1['v_c']}))
    with pytest.raises(ValueError, match=rf"1 videos of train.json are also in {tested}.*'v_a'"):
        build(mini, 'train')


@pytest.mark.parametrize(
    'entry', [dict(duration=5.0), dict(sentences='A dog.'), dict(sentences=['A', None]), ['A dog.']]
)
def test_malformed_entry(mini, entry):
    (mini / 'val_1.json').write_text(json.dumps({**VAL1, 'v_x': entry}))
    with pytest.raises(ValueError, match="val_1.json: 'sentences' of 'v_x': expected a list of st"):
        build(mini, 'val1')


def test_empty_paragraph(mini):
    (mini / 'val_1.json').write_text(json.dumps({'v_c': dict(sentences=[' ', ''])}))
    with pytest.raises(ValueError, match=r"caption row 0 \(text_id 'v_c'\) is empty"):
        build(mini, 'val1')
