"""Flickr8k's captions as items and as texts: published counts, a miniature, words and frames."""

import numpy as np
import pytest
from study_parts.caption_items import CaptionFrames, CaptionWords
from study_parts.flickr8k import SPLITS, TOKENS, Flickr8kCaptionsDataset
from study_parts.known_words import KnownWords, learn_words, read_words, write_words

from miniatures import FLICKR8K_IMAGES as IMAGES
from miniatures import write_flickr8k
from mmvtr.datasets.caption_similarity.caption_agreement import word_pmi


def build(root, split, **kwargs):
    return Flickr8kCaptionsDataset(
        split, ann_root=str(root), video_pipeline=[], text_pipeline=[], **kwargs
    )


@pytest.mark.parametrize('split', ['test'])
def test_published_counts(shared, split):
    data = build(shared / 'data/human_judgments/flickr8k', split)
    assert (len(data.videos), len(data.texts)) == SPLITS[split][2:]


def test_roles(tmp_path):
    write_flickr8k(tmp_path)
    train, test = build(tmp_path, 'train'), build(tmp_path, 'test')
    names = [video['video_id'] for video in train.videos]
    assert names == list(IMAGES['train'])
    own = IMAGES['train'][names[0]]
    assert train.videos[0]['captions'] == own[:2]
    assert [t['text'] for t in train.texts[:2]] == own[3:]
    assert [t['text_id'] for t in train.texts[:2]] == [f'{names[0]}#3', f'{names[0]}#4']
    assert [t['text_id'] for t in test.texts] == [f'{name}#2' for name in IMAGES['test']]
    other = build(tmp_path, 'test', seen=(4,), asks=(0, 1))
    assert len(other.texts) == 2 * len(other.videos) and len(other.videos[0]['captions']) == 1


@pytest.mark.parametrize('places', [dict(seen=()), dict(seen=(2,)), dict(seen=(0, 5))])
def test_places_that_are_none(tmp_path, places):
    write_flickr8k(tmp_path)
    with pytest.raises(ValueError, match='seen and asks are different places, 0 to 4'):
        build(tmp_path, 'test', **places)


@pytest.mark.parametrize(
    'line, message',
    [
        ('no tab', "line 26: expected 'IMAGE#n', n from 0 to 4, a tab and a caption"),
        ('x.jpg#5\ttoo many', "expected 'IMAGE#n'"),
        ('t0.jpg#0\ttwice', 'a caption that is not there yet'),
        ('x.jpg#0\talone', r"captions #0 to #4 of 'x.jpg'"),
    ],
)
def test_other_files(tmp_path, line, message):
    write_flickr8k(tmp_path)
    with open(tmp_path / TOKENS, 'a') as file:
        file.write(line + '\n')
    with pytest.raises(ValueError, match=message):
        build(tmp_path, 'test')


def test_vectors_are_the_root_of_what_words_tell_of_each_other(tmp_path):
    items = [['the dog runs', 'the hound is running'], ['the cat sits', 'the kitten sits']] * 3
    known = learn_words(items, dim=9, min_count=2)
    owners, bags = [], []
    for item in items:
        owners.append([len(bags), len(bags) + 1])
        bags += [known.ids(caption) for caption in item]
    pmi = word_pmi(bags, owners, 9, 0.3)
    products = known.vectors[:-1].astype(float) @ known.vectors[:-1].T
    squares = products @ products, pmi @ pmi
    np.testing.assert_allclose(*(x / np.trace(x) for x in squares), atol=1e-5)
    lengths = np.linalg.norm(known.vectors, axis=1)
    assert lengths[-1] == 0 and lengths[:-1].mean() == pytest.approx(1, abs=1e-5)
    assert lengths[known.numbers['the']] < 0.1
    write_words(tmp_path, known)
    again = read_words(tmp_path)
    assert again.numbers == known.numbers
    np.testing.assert_array_equal(again.vectors, known.vectors)
    with pytest.raises(ValueError, match='9 words occur 3 times, dim 10 needs as many'):
        learn_words(items, dim=10, min_count=3)


@pytest.fixture
def words(tmp_path):
    vectors = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)
    write_words(tmp_path, KnownWords(dict(dog=0, cat=1), vectors))
    return str(tmp_path)


def test_frames_are_the_vectors_of_words(words):
    item = dict(captions=['Dog cat!', 'cat dog bird'])
    frames = CaptionFrames(words, max_words=2)(dict(item))['features']
    np.testing.assert_array_equal(frames[:, :2], [[1, 0], [0, 1], [0, 1], [1, 0]])
    np.random.seed(0)
    noisy = [CaptionFrames(words, noise=0.3)(dict(item))['features'] for _ in range(300)]
    assert noisy[0].dtype == np.float32 and noisy[0].shape == (5, 3)
    added = np.stack(noisy) - CaptionFrames(words)(dict(item))['features']
    assert (added**2).sum(-1).mean() ** 0.5 == pytest.approx(0.3, rel=0.05)


def test_unknown_words_share_an_id(words):
    step = CaptionWords(words, max_words=4)
    ids = step(dict(text='A dog, a CAT, a bird'))['token_ids']
    assert ids.tolist() == [2, 0, 2, 1] and ids.dtype == np.int64
    assert step(dict(text='!'))['token_ids'].tolist() == [2]
    assert step.pieces(ids.tolist()) == ['[unknown]', 'dog', '[unknown]', 'cat']


def test_bad_words(words, tmp_path):
    with pytest.raises(ValueError, match='noise from 0 and max_words from 1, not -1'):
        CaptionFrames(words, noise=-1)
    with pytest.raises(ValueError, match='max_words must be at least 1'):
        CaptionWords(words, max_words=0)
    with pytest.raises(FileNotFoundError, match='flickr8k_words.py makes it'):
        CaptionWords(str(tmp_path / 'nowhere'))
    np.save(tmp_path / 'words.npy', np.zeros((2, 3), np.float32))
    with pytest.raises(
        ValueError, match=r'a vector of each of 2 words and one more, found \(2, 3\)'
    ):
        CaptionFrames(words)
    (tmp_path / 'words.txt').write_text('dog\ndog\n')
    with pytest.raises(ValueError, match='has a word twice'):
        CaptionFrames(words)
