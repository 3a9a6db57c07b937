"""Classes of captions: by a tagger, by a file, and what of them a video has."""

import hashlib
import json
import pickle
import sys

import pytest
from captioned import records

from mmvtr.datasets import MSRVTTDataset, YouCook2Dataset
from mmvtr.datasets.words.caption_classes import CaptionClasses, actions, class_number
from mmvtr.datasets.words.part_of_speech import tag
from mmvtr.registry import TASK_UTILS


def named(record, names):
    """Classes and actions of a record in words."""
    classes = {kind: [names[n] for n in numbers] for kind, numbers in record['classes'].items()}
    return classes, [(names[verb], names[noun]) for verb, noun in record['actions']]


def test_a_text_has_its_words():
    videos, texts = records([['Chop the spring onions, and fry the onions.'], ['a red car']])
    component = TASK_UTILS.build(dict(type='CaptionClasses', parser='rules'))
    component(videos, texts)
    expected = dict(verb=['chop', 'fry'], noun=['spring', 'onion'])
    assert named(texts[0], component.names) == (expected, [('chop', 'onion'), ('fry', 'onion')])
    assert named(videos[0], component.names) == named(texts[0], component.names)
    assert named(texts[1], component.names) == (dict(verb=[], noun=['car']), [])


def test_a_video_has_what_a_quarter_of_its_captions_have():
    """Of 8 captions, 2 are a quarter; an action needs only one that tells of it."""
    captions = [
        *('a man plays guitar', 'a man sings', 'a boy sings a song'),
        *('music', 'music', 'music', 'music', 'the guitar'),
    ]
    videos, texts = records([captions, []])
    component = CaptionClasses(parser='rules')
    component(videos, texts)
    classes, told = named(videos[0], component.names)
    assert classes == dict(verb=['sing'], noun=['man', 'guitar', 'music'])
    assert told == [('sing', 'man')]
    assert videos[1]['classes'] == dict(verb=[], noun=[]) and videos[1]['actions'] == []
    strict = CaptionClasses(parser='rules', share=0.5)
    videos, texts = records([captions])
    strict(videos, texts)
    assert named(videos[0], strict.names)[0] == dict(verb=[], noun=['music'])


def test_a_text_of_several_videos():
    videos, texts = records([['a man sings'], ['a dog']])
    texts[1]['video_idx'] = [0, 1]
    component = CaptionClasses(parser='rules', share=1)
    component(videos, texts)
    nouns = [named(video, component.names)[0]['noun'] for video in videos]
    assert nouns == [[], ['dog']]


@pytest.mark.parametrize(
    'sentence, expected',
    [
        ('add olive oil and salt to the pan', [('add', 'oil'), ('add', 'salt'), ('add', 'pan')]),
        ('chop onions and fry', [('chop', 'onion'), ('fry', 'onion')]),
        ('a man is singing', [('sing', 'man')]),
        ('a man is playing the guitar', [('play', 'guitar')]),
        ('stir', []),
        ('a red car', []),
    ],
)
def test_actions(sentence, expected):
    assert actions(tag(sentence)) == expected


def test_class_numbers():
    """The same in every process and set; small enough for any integer or float64."""
    assert class_number('take') == int(hashlib.sha256(b'take').hexdigest()[:12], 16)
    numbers = {class_number(f'word{i}') for i in range(20000)}
    assert len(numbers) == 20000 and 0 <= min(numbers) and max(numbers) < 2**48
    component = CaptionClasses(parser='rules')
    videos, texts = records([['take it']])
    pickle.loads(pickle.dumps(component))(videos, texts)
    assert texts[0]['classes']['verb'] == [class_number('take')]


def test_classes_of_a_file(tmp_path):
    path = tmp_path / 'classes.json'
    path.write_text(
        json.dumps({'0#0': dict(verb=[3, 1, 3], noun=[7, 4]), '0#1': dict(verb=[1], noun=[])})
    )
    videos, texts = records([['x', 'y']])
    CaptionClasses(parser=str(path), share=1)(videos, texts)
    assert texts[0]['classes'] == dict(verb=[3, 1], noun=[7, 4])
    assert texts[0]['actions'] == [(3, 7), (1, 7)]
    assert texts[1]['actions'] == []
    assert videos[0]['classes'] == dict(verb=[1], noun=[]) and videos[0]['actions'] == []


@pytest.mark.parametrize(
    'content, error, message',
    [
        ({'0#1': dict(verb=[], noun=[])}, KeyError, "classes.json has no classes for text '0#0'"),
        ({'0#0': dict(verb=[1])}, ValueError, "'0#0': expected a key 'noun', found .'verb'"),
        ({'0#0': dict(verb=[-1], noun=[])}, ValueError, r"'0#0', 'verb': .* found \[-1\]"),
        ({'0#0': dict(verb=['a'], noun=[])}, ValueError, r"found \['a'\]"),
        ({'0#0': [1, 2]}, ValueError, "'0#0': expected an object of keys and values"),
    ],
)
def test_bad_files(tmp_path, content, error, message):
    path = tmp_path / 'classes.json'
    path.write_text(json.dumps(content))
    with pytest.raises(error, match=message):
        CaptionClasses(parser=str(path))(*records([['x']]))


def test_what_it_refuses(monkeypatch, tmp_path):
    with pytest.raises(
        ValueError, match="parser must be 'rules', 'spacy' or a .json file, not 'nltk'"
    ):
        CaptionClasses(parser='nltk')
    with pytest.raises(FileNotFoundError, match='classes.json'):
        CaptionClasses(parser=str(tmp_path / 'classes.json'))
    with pytest.raises(ValueError, match=r'share must lie in \(0, 1\], not 0'):
        CaptionClasses(parser='rules', share=0)
    videos, texts = records([['x']])
    texts[0]['classes'] = dict(verb=[1])
    with pytest.raises(ValueError, match='1 of 2 records have classes; leave `classes` out'):
        CaptionClasses(parser='rules')(videos, texts)
    monkeypatch.setitem(sys.modules, 'spacy', None)
    with pytest.raises(ImportError, match='spacy'):
        CaptionClasses(parser='spacy')  # at once, not at the first caption


@pytest.mark.parametrize(
    'dataset, folder, split, without_verb, several',
    [
        (YouCook2Dataset, 'YouCook2', 'val', 0.001, 0.90),
        (MSRVTTDataset, 'MSRVTT', '1kA_test', 0.1, 0.50),
    ],
)
def test_published_captions(shared, dataset, folder, split, without_verb, several):
    """How many captions have no verb, and more than one action (75 % of YouCook2, a paper says)."""
    root = shared / 'data' / folder
    found = dataset(split, ann_root=str(root), video_pipeline=[], text_pipeline=[])
    CaptionClasses(parser='rules')(found.videos, found.texts)
    verbs = [len(text['classes']['verb']) for text in found.texts]
    told = [len(video['actions']) for video in found.videos]
    assert sum(n == 0 for n in verbs) / len(verbs) == pytest.approx(without_verb, abs=0.01)
    assert sum(n > 1 for n in told) / len(told) == pytest.approx(several, abs=0.02)
    # one caption a video, so they are the same
    assert [video['classes'] for video in found.videos] == [t['classes'] for t in found.texts]
