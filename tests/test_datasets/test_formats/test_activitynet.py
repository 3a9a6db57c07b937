"""ActivityNet Captions: published counts, paragraphs of the files, a miniature."""

import json

import pytest

from miniatures import ACTIVITYNET, write_activitynet
from mmvtr.datasets import ActivityNetDataset
from mmvtr.datasets.formats.activitynet import SPLITS


def build(root, split, **kwargs) -> ActivityNetDataset:
    return ActivityNetDataset(
        split, ann_root=str(root), video_pipeline=[], text_pipeline=[], **kwargs
    )


@pytest.fixture
def mini(tmp_path):
    """Two videos to train on and one to test on, described twice."""
    write_activitynet(tmp_path)
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
    with pytest.raises(
        ValueError, match=r"1 of 2 videos in .*train_list.txt have no captions .*'v_gone'"
    ):
        build(mini, 'train')


@pytest.mark.parametrize('tested', ['val_1.json', 'val_2.json'])
def test_training_videos_among_the_tested(mini, tested):
    (mini / tested).write_text(json.dumps({'v_a': ACTIVITYNET['val_1']['v_c']}))
    with pytest.raises(ValueError, match=rf"1 videos of train.json are also in {tested}.*'v_a'"):
        build(mini, 'train')


@pytest.mark.parametrize(
    'entry, message',
    [
        (dict(duration=5.0), ": expected a key 'sentences', found .'duration'"),
        (dict(sentences='A dog.'), ", 'sentences': expected a list of strings, found 'A dog.'"),
        (dict(sentences=['A', None]), r", 'sentences': expected a list of strings, found \['A', N"),
        (['A dog.'], r": expected an object of keys and values, found \['A dog"),
    ],
)
def test_malformed_entry(mini, entry, message):
    (mini / 'val_1.json').write_text(json.dumps({**ACTIVITYNET['val_1'], 'v_x': entry}))
    with pytest.raises(ValueError, match=f"val_1.json: 'v_x'{message}"):
        build(mini, 'val1')


def test_empty_paragraph(mini):
    (mini / 'val_1.json').write_text(json.dumps({'v_c': dict(sentences=[' ', ''])}))
    with pytest.raises(ValueError, match="val_1.json: 'v_c': expected a caption, which"):
        build(mini, 'val1')
