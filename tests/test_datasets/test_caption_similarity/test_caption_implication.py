"""How surely captions of clips imply texts, against counts by loops."""

import math

import numpy as np
import pytest
import torch
from captioned import CLIPS, records, words_of

from mmvtr.datasets.planted_corpus.grammar import draw_captions, judge
from mmvtr.datasets.planted_corpus.world import Knobs, draw_clip
from mmvtr.registry import TASK_UTILS

PRIOR, LEAST = 0.7, 0.01


def implied(videos, texts, **how):
    component = TASK_UTILS.build(dict(type='CaptionImplication', **how))
    component(videos, texts)
    return np.stack([t['agreement'] for t in texts]) @ np.stack([v['agreement'] for v in videos]).T


def whole(tiles):
    """Tiles as one matrix."""
    return torch.cat([tile for _, tile in tiles.parts()], 1).numpy()


def by_loops(clips):
    """[T, V], logs of how surely."""
    captions = [c for clip in clips if len(clip) > 1 for c in clip]
    vocabulary = {w for clip in clips for c in clip for w in words_of(c)}
    alone = {w: sum(w in words_of(c) for c in captions) for w in vocabulary}
    pairs = dict.fromkeys(((u, w) for u in vocabulary for w in vocabulary), 0.0)
    for clip in clips:
        for i, one in enumerate(clip):
            for j, other in enumerate(clip):
                for u in words_of(one) if i != j else ():
                    for w in words_of(other):
                        pairs[u, w] += 1 / (len(clip) - 1)
    mean = sum(pairs[w, w] for w in vocabulary) / sum(alone.values())

    def sure(u, w):
        if u == w:
            return 1.0
        said = (pairs[u, w] + PRIOR * alone[w] / len(captions)) / (alone[u] + PRIOR)
        again = (pairs[w, w] + PRIOR * mean) / (alone[w] + PRIOR)
        return min(1.0, said / again)

    def pair(text, clip):
        said = {u for c in clip for u in words_of(c)}
        found = [max([sure(u, w) for u in said] + [LEAST]) for w in words_of(text)]
        return sum(math.log(p) for p in found)

    return np.array([[pair(t, clip) for clip in clips] for own in clips for t in own])


def test_the_product_is_the_sum_of_logs():
    videos, texts = records()
    found = implied(videos, texts, prior=PRIOR, least=LEAST)
    np.testing.assert_allclose(found, by_loops(CLIPS), atol=1e-4)
    own = [t['video_idx'][0] for t in texts]
    np.testing.assert_allclose(found[np.arange(len(texts)), own], 0, atol=1e-4)  # each is said
    assert found.std() > 1
    assert texts[0]['agreement'].dtype == np.float32


def test_captions_imply_each_other_as_clips_of_one_caption():
    videos, texts = records()
    captions = [text['text'] for text in texts]
    component = TASK_UTILS.build(dict(type='CaptionImplication', prior=PRIOR, least=LEAST))
    component.learn(videos, texts)
    assert not any('agreement' in record for record in (*videos, *texts))
    tiles = component.among(captions)
    surely = whole(tiles)
    assert tiles.shape == surely.shape == (len(captions),) * 2 and surely.dtype == np.float32
    # A clip of one caption is not counted, so it changes nothing of what implies what.
    alone = by_loops([*CLIPS, *([caption] for caption in captions)])
    expected = alone[: len(captions), len(CLIPS) :]
    np.testing.assert_allclose(np.log(surely).T, expected, atol=1e-4)
    np.testing.assert_allclose(np.diag(surely), 1, atol=1e-6)
    assert expected.std() > 1


def test_a_word_that_was_not_counted_is_implied_by_itself_alone():
    component = TASK_UTILS.build(dict(type='CaptionImplication', least=LEAST))
    component.learn(*records())
    known = component.known[0]
    captions = [known, f'{known} xylophone', 'Xylophone', 'xylophone unheard', '']
    surely = whole(component.among(captions))
    np.testing.assert_allclose(surely[0, :4], [1, LEAST, LEAST, LEAST**2], rtol=1e-4)
    np.testing.assert_allclose(surely[1], [1, 1, 1, LEAST, LEAST], rtol=1e-4)
    np.testing.assert_allclose(surely[2], [LEAST, LEAST, 1, LEAST, LEAST], rtol=1e-4)
    np.testing.assert_allclose(surely[3, 2:4], 1, rtol=1e-4)
    # Nothing is said: it implies no other caption, and no other one implies it.
    np.testing.assert_allclose(surely[4], [LEAST, LEAST**2, LEAST, LEAST**2, 1], rtol=1e-4)


@pytest.mark.parametrize('width', [1, 2, 100])
def test_captions_imply_others_as_they_would_in_one_list(width):
    component = TASK_UTILS.build(dict(type='CaptionImplication', least=LEAST))
    component.learn(*records())
    known = component.known
    said = [known[0], f'{known[1]} xylophone', '', f'{known[0]} {known[2]}']
    asked = ['xylophone', f'{known[2]} {known[1]}', '', '...', f'{known[0]} xylophone unheard']
    together = whole(component.among([*said, *asked]))
    tiles = component.among(said, asked)
    assert tiles.shape == (4, 5)
    apart = whole(tiles._replace(width=width))
    np.testing.assert_allclose(apart, together[:4, 4:], rtol=1e-5)
    np.testing.assert_allclose(apart[:, 2], [LEAST, LEAST, 1, LEAST], rtol=1e-5)  # of no words
    np.testing.assert_allclose(apart[:, 3], LEAST, rtol=1e-5)


def test_autocast_does_not_round_what_is_implied():
    component = TASK_UTILS.build(dict(type='CaptionImplication', least=LEAST))
    component.learn(*records())
    tiles = component.among([text['text'] for text in records()[1]])
    expected = whole(tiles)
    with torch.autocast('cpu', torch.bfloat16):
        np.testing.assert_array_equal(whole(tiles), expected)


def test_nothing_is_implied_before_it_has_learnt():
    component = TASK_UTILS.build(dict(type='CaptionImplication'))
    with pytest.raises(RuntimeError, match='learn'):
        component.among(['a star'])


def test_few_dimensions_come_near():
    exact = implied(*records(), prior=PRIOR)
    errors = [np.abs(implied(*records(), prior=PRIOR, dim=d) - exact).mean() for d in (1, 3, 6, 99)]
    assert errors[0] > errors[1] > errors[2] > errors[3] and errors[3] < 1e-5


def test_a_text_of_two_videos_is_a_caption_of_both():
    videos, texts = records()
    texts[3]['video_idx'] = [1, 3]
    clips = [list(clip) for clip in CLIPS]
    clips[3].insert(0, CLIPS[1][0])
    row = [n for n in range(11) if n != 7]  # the copy: after 3 + 2 + 2 texts
    found = implied(videos, texts, prior=PRIOR, least=LEAST)
    np.testing.assert_allclose(found, by_loops(clips)[row], atol=1e-4)


def test_texts_of_no_known_word_are_implied_by_all():
    clips = [['star star hops', 'star hops'], ['a star', 'hops'], ['unheard', 'of']]
    videos, texts = records(clips)
    found = implied(videos, texts, words=2)
    assert not found[-1].any()
    assert found[0, 2] < found[0, :2].min()


def test_soft_positives_are_found():
    """Captions of 300 planted clips: most of what is sure is true, where one in twelve is."""
    knobs = Knobs(general=0.6, num_train=300)
    clips = [draw_clip(knobs, 'train', n) for n in range(300)]
    said = [draw_captions(knobs, 'train', n, clip, 2) for n, clip in enumerate(clips)]
    holds = judge([caption for own in said for caption in own], clips).holds
    found = implied(*records([[caption['text'] for caption in own] for own in said]))
    others = np.ones(holds.shape, bool)
    others[np.arange(600), np.arange(600) // 2] = False
    sure = others & (found > math.log(0.9))
    assert holds[others].mean() < 0.1
    assert holds[sure].mean() > 0.6
    assert (sure & holds).sum() > 0.4 * (others & holds).sum()


def test_clips_of_one_caption_say_nothing():
    with pytest.raises(ValueError, match='none of 2 videos has two captions'):
        implied(*records([['a star'], ['a box']]))


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(words=0), 'words must be at least 1, not 0'),
        (dict(dim=0), 'dim must be at least 1, not 0'),
        (dict(prior=0.0), 'prior must be positive, not 0.0'),
        (dict(least=1.0), r'least must lie in \(0, 1\), not 1.0'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        TASK_UTILS.build(dict(type='CaptionImplication', **wrong))
