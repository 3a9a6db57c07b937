"""What a planted corpus says and shows: truth against loops, calibration, knobs, drawing."""

import hashlib
import json
from collections import Counter

import numpy as np
import pytest

from mmvtr.datasets.planted_corpus.drawing import POLYGONS, RGB, draw, pose
from mmvtr.datasets.planted_corpus.grammar import (
    EXACT,
    MEANING,
    caption_counts,
    draw_captions,
    false_negative_share,
    judge,
    vocabulary,
)
from mmvtr.datasets.planted_corpus.store import draw_split
from mmvtr.datasets.planted_corpus.world import (
    BACKGROUNDS,
    FPS,
    LATER,
    LONG_ACTIONS,
    OBJECT,
    Knobs,
    draw_clip,
    num_frames,
)


def drawn(knobs, split):
    """Clips, captions and the clip of each caption, without any file."""
    clips = [draw_clip(knobs, split, v) for v in range(knobs.num_clips(split))]
    captions, own = [], []
    for v, count in enumerate(caption_counts(knobs, split)):
        captions += draw_captions(knobs, split, v, clips[v], count)
        own += [v] * count
    return clips, captions, np.array(own)


def agreed_by_loops(caption, moment):
    """Most predicates satisfied in a moment, tried over all assignments, one by one."""
    things = [*moment['objects'], {}]
    best = 0
    for first in range(len(things)):
        for second in range(len(things)):
            if first == second and things[first]:
                continue
            count = 0
            for phrases, o in zip(caption['says'], (first, second)):
                for slot, phrase in phrases.items():
                    count += things[o].get(slot) in MEANING[slot][phrase]
            best = max(best, count)
    background = caption['background']
    if background is not None:
        best += moment['background'] in MEANING['background'][background]
    return best


@pytest.mark.parametrize('moments', [1, 3])
def test_truth_and_relevance_equal_loops(moments):
    clips, captions, own = drawn(Knobs(num_test=60, untrimmed=moments), 'test')
    truth = judge(captions, clips)
    for t, caption in enumerate(captions):
        said = sum(map(len, caption['says'])) + (caption['background'] is not None)
        for v, clip in enumerate(clips):
            agreed = max(agreed_by_loops(caption, moment) for moment in clip)
            assert truth.holds[t, v] == (agreed == said)
            assert truth.relevance[t, v] == np.float16(agreed / said)
    assert truth.holds[np.arange(len(own)), own].all()
    assert truth.holds.dtype == bool and truth.relevance.dtype == np.float16


def test_truth_of_hand_written_captions():
    star = dict(size='small', colour='red', shape='star', action='left')
    box = dict(size='large', colour='blue', shape='square', action='spin')
    alone = [dict(background='sand', objects=[star])]
    both = [dict(background='dots', objects=[box, star])]

    def says(*phrases, background=None):
        return dict(says=list(phrases), background=background)

    captions = [
        says(dict(colour='crimson', action='moves sideways')),
        says(dict(shape='star'), dict(shape='box')),
        says(dict(colour='red', shape='box')),  # the colour and the shape of two objects
        says(dict(shape='star'), dict(shape='star')),  # one object cannot be both
        says(dict(size='tiny'), background='gravel'),
        says(dict(action='stays in place')),
    ]
    truth = judge(captions, [alone, both])
    assert truth.relevance.tolist() == [[1, 1], [0.5, 1], [0.5, 0.5], [0.5, 0.5], [1, 0.5], [0, 1]]
    assert (truth.holds == (truth.relevance == 1)).all()


def test_a_caption_must_hold_within_one_moment():
    red = dict(size='small', colour='red', shape='star', action='left')
    blue = dict(size='small', colour='blue', shape='heart', action='up')
    clip = [dict(background='sand', objects=[thing]) for thing in (red, blue)]
    caption = dict(says=[dict(colour='red'), dict(colour='blue')], background=None)
    assert judge([caption], [clip]).relevance.item() == 0.5


def soft_positives(general):
    """Share of off-diagonal test pairs that hold, and of queries that have one (2 seeds)."""
    pairs, queries = [], []
    for seed in range(2):
        clips, captions, own = drawn(Knobs(seed=seed, general=general), 'test')
        soft = judge(captions, clips).holds
        soft[np.arange(len(own)), own] = False
        pairs.append(soft.sum() / (soft.size - len(own)))
        queries.append(soft.any(axis=1).mean())
    return np.mean(pairs), np.mean(queries)


def test_share_of_soft_positives():
    pairs, queries = soft_positives(general=0.3)
    assert pairs == pytest.approx(0.043, abs=0.005) and queries == pytest.approx(0.56, abs=0.03)
    pairs, queries = soft_positives(general=0.6)
    assert pairs == pytest.approx(0.084, abs=0.007) and queries == pytest.approx(0.75, abs=0.04)


def test_ceiling_of_paired_retrieval():
    """Perfect semantics: the chance that a caption was written for a clip of which it holds."""
    clips, captions, _ = drawn(Knobs(), 'test')
    holds = judge(captions, clips).holds
    scores = holds / holds.sum(axis=1, keepdims=True)
    mean_rank, random_order = 0, 0
    for matrix in (scores, scores.T):
        own = np.diagonal(matrix)[:, None]
        better, tied = (matrix > own).sum(axis=1), (matrix == own).sum(axis=1)
        for k in (1, 5, 10):
            mean_rank += 100 * (1 + better + (tied - 1) / 2 <= k).mean()
            random_order += 100 * ((k - better) / tied).clip(0, 1).mean()
    assert mean_rank == pytest.approx(426, abs=15)
    assert random_order == pytest.approx(452, abs=15)


def test_captions_stay_in_the_closed_vocabulary():
    words = set(vocabulary())
    _, captions, _ = drawn(Knobs(num_train=300, captions=4, general=0.6), 'train')
    assert {word for caption in captions for word in caption['text'].split()} <= words
    assert {caption['level'] for caption in captions} == {'specific', 'medium', 'general'}
    assert vocabulary() == sorted(words)


def test_the_tables_cover_the_world_and_no_phrase_is_ambiguous():
    for slot, values in {**OBJECT, 'background': BACKGROUNDS}.items():
        assert set(EXACT[slot]) == set(values)
        phrases = [phrase for options in EXACT[slot].values() for phrase in options]
        assert len(set(phrases)) == len(phrases)
    assert set(POLYGONS) == set(OBJECT['shape']) and set(RGB) == set(OBJECT['colour'])


def test_seeds_and_splits_are_independent_draws_and_knobs_leave_clips_alone():
    clips, _, _ = drawn(Knobs(), 'test')
    for other in (drawn(Knobs(seed=1), 'test')[0], drawn(Knobs(num_val=400), 'val')[0]):
        same = np.mean([a[0]['objects'] == b[0]['objects'] for a, b in zip(clips, other)])
        assert same < 0.02
    assert drawn(Knobs(general=0.6, captions=5, test_captions=2), 'test')[0] == clips


def test_imbalance_keeps_the_total_and_gives_each_clip_a_caption():
    counts = caption_counts(Knobs(imbalance=0.5), 'train')
    assert counts.sum() == 2400 and counts.min() == 1 and counts.max() > 12
    assert set(caption_counts(Knobs(), 'train')) == {2}
    assert set(caption_counts(Knobs(imbalance=0.5, test_captions=3), 'test')) == {3}


def test_uneven_numbers_of_captions_are_of_val_and_test_alone():
    knobs = Knobs(uneven=0.6, test_captions=25, num_val=400)
    for split in ('val', 'test'):
        counts = caption_counts(knobs, split)
        assert set(counts) == set(range(10, 41)) and counts.mean() == pytest.approx(25, abs=1)
    assert (caption_counts(knobs, 'train') == caption_counts(Knobs(), 'train')).all()
    assert caption_counts(Knobs(uneven=1, test_captions=2), 'test').min() == 1


@pytest.mark.parametrize(('split', 'expected'), [('train', 0.9), ('val', 0.9), ('test', 0.1)])
def test_length_confound_flips_on_test(split, expected):
    knobs = Knobs(length_confound=0.9, num_val=400)
    clips, _, _ = drawn(knobs, split)
    tied = [
        (sum(num_frames(clip)) >= 32) == (clip[0]['objects'][0]['action'] in LONG_ACTIONS)
        for clip in clips
    ]
    assert np.mean(tied) == pytest.approx(expected, abs=0.05)
    assert all(16 <= sum(num_frames(clip)) <= 40 for clip in clips)


def test_untrimmed_moments_follow_each_other_and_share_the_captions():
    knobs = Knobs(untrimmed=3, captions=6, num_train=50)
    clips, captions, own = drawn(knobs, 'train')
    for clip in clips:
        assert clip[0]['start'] == 0 and len(clip) == 3
        assert [a['end'] for a in clip[:-1]] == [b['start'] for b in clip[1:]]
        frames = num_frames(clip)
        sampled = (np.arange(24) + 0.5) * sum(frames) / 24
        assert np.histogram(sampled, np.cumsum([0, *frames]))[0].min() >= 6
    assert set(Counter(zip(own, (c['moment'] for c in captions))).values()) == {2}
    for v, caption in zip(own, captions):
        moment = clips[v][caption['moment']]
        assert (caption['start'], caption['end']) == (moment['start'], moment['end'])


@pytest.mark.parametrize(
    'knobs',
    [
        dict(seed=-1),
        dict(num_test=0),
        dict(captions=1.5),
        dict(general=1.2),
        dict(imbalance=-1),
        dict(imbalance=1, captions=1),
        dict(length_confound=2),
        dict(uneven=1.5),
        dict(near_duplicates=0),
        dict(medium=1.1),
        dict(untrimmed=2, length_confound=0.9),
    ],
)
def test_knobs_out_of_range_are_named(knobs):
    with pytest.raises(ValueError, match=next(iter(knobs))):
        Knobs(**knobs)


def test_key_tells_corpora_apart():
    keys = [Knobs().key, Knobs(seed=1).key, Knobs(general=0.6).key, Knobs(untrimmed=2).key]
    assert len(set(keys)) == 4 and Knobs(general=1).key == Knobs(general=1.0).key


def test_a_later_knob_leaves_older_corpora_as_and_where_they_are():
    """Names that such folders had before there was any later knob."""
    assert Knobs().key == 'seed0_general30_ee1d6abc' and not {*LATER} & Knobs().identity.keys()
    assert Knobs(seed=1000).key == 'seed1000_general30_7b0342d7'
    assert Knobs(uneven=0.5).identity['uneven'] == 0.5 and Knobs(uneven=0.5).key != Knobs().key


@pytest.mark.parametrize(
    'knobs, digest',
    [
        (dict(), 'ec4d46fd2a3f2c1c'),
        (dict(general=0.0, untrimmed=3, captions=6), 'f8402d38a67bed87'),
    ],
)
def test_a_later_knob_leaves_older_corpora_bit_by_bit(knobs, digest):
    """Digests of what was drawn before there were near-duplicates; pixels are a function of it."""
    knobs = Knobs(num_train=40, num_val=10, num_test=30, **knobs)
    drawn_then = [draw_split(knobs, split) for split in ('train', 'val', 'test')]
    assert hashlib.sha256(json.dumps(drawn_then).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize('untrimmed', [1, 2])
def test_near_duplicates_show_the_same_but_for_the_background(untrimmed):
    knobs = Knobs(num_train=9, near_duplicates=3, untrimmed=untrimmed)
    clips = [draw_clip(knobs, 'train', v) for v in range(9)]
    things = [[moment.pop('objects') for moment in clip] for clip in clips]
    for v, clip in enumerate(clips):
        first = v - v % 3
        assert (things[v] == things[first]) and (v == first) == (clip == clips[first])
        assert all(
            (m['background'] == f['background']) == (v == first) for m, f in zip(clip, clips[first])
        )
    assert things[0] != things[3] != things[6]
    alone = Knobs(num_train=9, untrimmed=untrimmed)
    leader = [{k: x for k, x in m.items() if k != 'objects'} for m in draw_clip(alone, 'train', 3)]
    assert leader == clips[3]  # as without the knob


def test_share_of_true_pairs_at_that_of_real_sets():
    """What it is that a knob changes: specific captions tell near-duplicates apart."""

    def share(**knobs):
        clips, captions, own = drawn(Knobs(general=0.0, num_test=400, **knobs), 'test')
        owned = own[:, None] == np.arange(len(clips))
        return 100 * false_negative_share(judge(captions, clips).holds, owned)

    assert share(medium=0.1) == pytest.approx(0.04, abs=0.02)
    assert share() == pytest.approx(0.16, abs=0.03)
    assert share(near_duplicates=7) == pytest.approx(1.0, abs=0.25)
    assert share(near_duplicates=2, medium=0.0) < 0.1


def centre(image, colour):
    """Mean x, mean y and number of the pixels painted in ``colour``; None where there is none."""
    y, x = np.nonzero((image == RGB[colour]).all(axis=-1))
    return (x.mean(), y.mean(), len(x)) if len(x) else None


@pytest.mark.parametrize('frames', [16, 23, 24, 32, 40])
@pytest.mark.parametrize('action', OBJECT['action'])
def test_actions_are_visible_in_eight_frames(action, frames):
    thing = dict(size='small', colour='red', shape='square', action=action)
    clip = [dict(start=0, end=frames / FPS, background='dots', objects=[thing])]
    images = draw(clip, np.random.default_rng(0))
    assert images.shape == (frames, 64, 64, 3) and images.dtype == np.uint8
    seen = [centre(images[int((i + 0.5) * frames / 8)], 'red') for i in range(8)]
    if action == 'blink':
        assert 2 <= sum(s is None for s in seen) <= 6
        return
    x, y, area = np.array(seen).T
    assert (x[-1] - x[0] < -20) == (action == 'left')
    assert (x[-1] - x[0] > 20) == (action == 'right')
    assert (y[-1] - y[0] < -20) == (action == 'up')
    assert (y[-1] - y[0] > 20) == (action == 'down')
    assert (np.ptp(x) > 9) == (action in ('left', 'right', 'circle'))
    assert (np.ptp(y) > 9) == (action in ('up', 'down', 'circle', 'bounce'))
    assert (area[-1] > 2 * area[0]) == (action == 'grow')
    assert (area[-1] < 0.5 * area[0]) == (action == 'shrink')


@pytest.mark.parametrize('stride', [2, 3, 4, 5])
@pytest.mark.parametrize('shape', OBJECT['shape'])
def test_spin_alters_every_shape_at_any_stride(shape, stride):
    corners = POLYGONS[shape]
    turned = corners * np.exp(1j * pose('spin', stride, 24).angle)
    gaps = np.abs(turned[:, None] - corners[None]).min(axis=1)
    assert gaps.max() > 0.15
