"""Splits and removals by length against loops over the printed algorithms, and on EPIC."""

import csv

import numpy as np
import pytest

from mmvtr.datasets.sampling.splits import (
    adjusted_split,
    class_means,
    class_members,
    clips_to_remove,
    equal_split,
    last_two,
    random_like,
    removals,
)

LENGTHS = np.array([5.0, 1, 4, 1, 9, 2, 6, 3])


def groups_of(groups):
    return [np.flatnonzero(groups == k).tolist() for k in range(groups.max() + 1)]


def halving(lengths, parts, cut):
    """Algorithm 2 with a list that shrinks; ``cut`` of the last list gives its first videos."""
    videos = sorted(range(len(lengths)), key=lambda v: (lengths[v], v))
    groups, number = {}, 0
    while parts >= 1:
        if parts == 2:
            last = cut(videos)
            groups.update({v: number if i < last else number + 1 for i, v in enumerate(videos)})
            break
        half = len(videos) // 2
        groups.update(dict.fromkeys(videos[:half], number))
        videos, number, parts = videos[half:], number + 1, parts - 1
    return [groups[v] for v in range(len(lengths))]


def deleting(lengths, test_mean, delta, alpha, printed):
    """Algorithm 1, one clip at a time, the mean taken anew each time."""
    videos = sorted(range(len(lengths)), key=lambda v: (lengths[v], v))
    shortest = test_mean >= sum(lengths) / len(lengths) + delta
    deleted = []
    while videos:
        mean = sum(lengths[v] for v in videos) / len(videos)
        gap = test_mean - mean if shortest else mean - test_mean
        if gap < delta or (not printed and len(videos) <= alpha):
            break
        deleted.append(videos.pop(0 if shortest else -1))
        if printed and len(videos) <= alpha:
            break
    return deleted


def test_equal_parts_of_a_hand_made_set():
    assert groups_of(equal_split(LENGTHS, 2)) == [[1, 3, 5, 7], [0, 2, 4, 6]]
    assert groups_of(equal_split(LENGTHS, 3)) == [[1, 3, 5], [0, 2, 7], [4, 6]]
    assert equal_split(np.array([2, 2, 2]), 3).tolist() == [0, 1, 2], 'ties keep their order'


def test_two_adjusted_parts_are_parted_by_the_threshold_alone():
    assert groups_of(adjusted_split(LENGTHS, 2, threshold=4)) == [[1, 3, 5, 7], [0, 2, 4, 6]]
    assert groups_of(adjusted_split(LENGTHS, 2, threshold=9)) == [[0, 1, 2, 3, 5, 6, 7], [4]]
    assert groups_of(adjusted_split(LENGTHS, 2, share=0.25)) == [[1, 3], [0, 2, 4, 5, 6, 7]]
    assert last_two(LENGTHS, 2).tolist() == [1, 3, 5, 7, 2, 0, 6, 4]


def test_more_adjusted_parts_are_halves_first():
    assert groups_of(adjusted_split(LENGTHS, 3, share=0.5)) == [[1, 3, 5, 7], [0, 2], [4, 6]]
    assert groups_of(adjusted_split(LENGTHS, 3, threshold=9)) == [[1, 3, 5, 7], [0, 2, 6], [4]]
    assert last_two(LENGTHS, 4).tolist() == [6, 4]


@pytest.mark.parametrize('parts', [2, 3, 4, 5])
@pytest.mark.parametrize('number', [40, 57])
def test_adjusted_split_is_algorithm_2(parts, number):
    lengths = np.random.default_rng(parts).integers(1, 200, number)
    for share in (0.3, 0.5, 0.748):
        expected = halving(lengths, parts, lambda videos, share=share: int(share * len(videos)))
        assert adjusted_split(lengths, parts, share=share).tolist() == expected
    threshold = lengths[last_two(lengths, parts)].mean()
    expected = halving(lengths, parts, lambda videos: sum(lengths[v] < threshold for v in videos))
    assert adjusted_split(lengths, parts, threshold=threshold).tolist() == expected


def test_a_share_is_rounded_down_but_not_by_floating_point():
    lengths = np.arange(1, 101)
    assert int(0.29 * 100) == 28
    assert (adjusted_split(lengths, 2, share=0.29) == 0).sum() == 29
    assert (adjusted_split(lengths[:10], 2, share=0.29) == 0).sum() == 2


@pytest.mark.parametrize('printed', [False, True])
def test_removal_is_algorithm_1(printed):
    rng = np.random.default_rng(3)
    directions = set()
    for _ in range(300):
        lengths = rng.integers(1, 40, rng.integers(1, 15)).astype(float)
        test_mean, delta = float(rng.integers(1, 40)), float(rng.integers(0, 12))
        alpha = int(rng.integers(1, 6))
        expected = deleting(lengths, test_mean, delta, alpha, printed)
        found = clips_to_remove(
            lengths,
            test_mean,
            delta=delta,
            alpha=alpha,
            order='as_printed' if printed else 'guard_first',
        )
        assert found.tolist() == expected
        directions.add((len(expected) > 1) * np.sign(test_mean - lengths.mean()))
        if not printed:
            assert len(lengths) - len(found) >= min(alpha, len(lengths))
    assert directions == {-1, 0, 1}


def test_the_guard_before_or_after_a_removal():
    small = np.array([1.0, 2.0])
    assert len(clips_to_remove(small, 50, delta=10, alpha=60)) == 0
    assert clips_to_remove(small, 50, delta=10, alpha=60, order='as_printed').tolist() == [0]
    assert clips_to_remove(small, 1, delta=0.5, alpha=1).tolist() == [1]
    assert len(clips_to_remove(small, 1, delta=0.6, alpha=1, order='as_printed')) == 0


def test_the_opposite_end_loses_as_many():
    lengths = np.array([1.0, 1, 5, 9, 9])
    assert clips_to_remove(lengths, 7, delta=1, alpha=1).tolist() == [0, 1]
    assert clips_to_remove(lengths, 7, delta=1, alpha=1, opposite=True).tolist() == [4, 3]


ACTIONS = [[(0, 1)], [(0, 1)], [(0, 1), (2, 0)], [(2, 0), (2, 0)], [(2, 0)], []]
VIDEO_LENGTHS = np.array([1.0, 2, 9, 8, 1, 7])


def test_classes():
    members = class_members(ACTIONS)
    assert {action: v.tolist() for action, v in members.items()} == {
        (0, 1): [0, 1, 2],
        (2, 0): [2, 3, 4],
    }
    assert class_means(VIDEO_LENGTHS, ACTIONS) == {(0, 1): 4.0, (2, 0): 6.0}


def test_removals_class_by_class():
    removed = removals(VIDEO_LENGTHS, ACTIONS, {(0, 1): 1.0, (2, 0): 8.0}, delta=1, alpha=1)
    assert {action: v.tolist() for action, v in removed.items()} == {
        (0, 1): [2],  # 4 -> 1.5, and video 2 no longer counts below
        (2, 0): [4],  # 4.5 -> 8
    }
    one = removals(VIDEO_LENGTHS, ACTIONS, {(2, 0): 8.0}, delta=1, alpha=1)
    assert {action: v.tolist() for action, v in one.items()} == {(2, 0): [4]}
    assert removals(VIDEO_LENGTHS, ACTIONS, {(5, 5): 8.0}, delta=1, alpha=1) == {}
    gone = removals(
        np.array([9.0, 1]), [[(0, 0), (1, 1)], [(0, 0)]], {(0, 0): 1, (1, 1): 1}, **TIGHT
    )
    assert list(gone) == [(0, 0)], 'all of the second class has left with the first'


TIGHT = dict(delta=1, alpha=1)


def test_random_groups_keep_their_sizes_and_places():
    groups = adjusted_split(np.arange(1, 101), 2, share=0.7)
    drawn = random_like(groups, 5)
    assert np.bincount(drawn).tolist() == [70, 30]
    assert (drawn == random_like(groups, 5)).all()
    assert (drawn != groups).any() and (drawn != random_like(groups, 6)).any()
    alone = random_like(np.where(groups == 1, 1, -1), 5)
    assert (alone == np.where(drawn == 1, 1, -1)).all()


@pytest.mark.parametrize(
    'call, message',
    [
        (lambda: equal_split(LENGTHS, 1), 'parts must be an int of at least 2, got 1'),
        (lambda: equal_split(LENGTHS, 2.0), 'parts must be an int'),
        (lambda: equal_split(LENGTHS, 9), '9 parts cannot be made of 8 videos'),
        (lambda: adjusted_split(LENGTHS, 9, share=0.5), '9 parts cannot be made of 8 videos'),
        (lambda: adjusted_split(LENGTHS, 2), 'one of threshold and share, got None and None'),
        (lambda: adjusted_split(LENGTHS, 2, threshold=3, share=0.5), 'one of threshold and share'),
        (
            lambda: adjusted_split(LENGTHS, 2, share=1.0),
            r'share must lie in \(0, 1\), not 1\.0',
        ),
        (
            lambda: adjusted_split(LENGTHS, 2, threshold=1),
            r'a part has no video: the sizes are \[0, 8\], lengths go from 1 to 9',
        ),
        (lambda: adjusted_split(LENGTHS, 2, threshold=10), r'the sizes are \[8, 0\]'),
        (lambda: adjusted_split(LENGTHS, 5, share=0.5), r'the sizes are \[4, 2, 1, 0, 1\]'),
        (
            lambda: equal_split(np.array([1, 0, np.nan]), 2),
            r'2 of 3 videos have no positive length, e\.g\. video 1: 0\.0',
        ),
        (
            lambda: clips_to_remove(LENGTHS, 9, delta=-1, alpha=1),
            'delta must be at least 0, not -1',
        ),
        (lambda: clips_to_remove(LENGTHS, 9, delta=1, alpha=0), 'alpha must be at least 1, not 0'),
        (
            lambda: clips_to_remove(LENGTHS, 9, delta=1, alpha=1, order='printed'),
            "order must be one of .*'guard_first', 'as_printed'.*, not 'printed'",
        ),
        (lambda: clips_to_remove([], 9, delta=1, alpha=1), 'no training video'),
        (lambda: clips_to_remove([-1.0], 9, delta=1, alpha=1), 'no positive length'),
    ],
)
def test_what_cannot_be_split_or_thinned(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- EPIC-KITCHENS-100: what of the paper's numbers its published annotations give ---------------


def read_epic(path):
    """Native lengths in frames, and the one class of each clip."""
    with open(path, newline='') as file:
        rows = list(csv.DictReader(file))
    lengths = np.array([int(row['stop_frame']) - int(row['start_frame']) for row in rows])
    return lengths, [[(int(row['verb_class']), int(row['noun_class']))] for row in rows]


@pytest.fixture(scope='module')
def epic(shared):
    folder = shared / 'data' / 'EPIC100'
    names = 'EPIC_100_train_rebuilt.csv', 'EPIC_100_validation.csv'
    return tuple(read_epic(folder / name) for name in names)


def test_epic_split_at_the_mean_train_length(epic):
    """The paper: 50,282 / 16,935. 2,423 lengths of the train file are rebuilt."""
    (lengths, _), (test_lengths, _) = epic
    assert (len(lengths), len(test_lengths)) == (67217, 9668)
    for threshold, sizes in (
        (int(lengths.mean()), [50281, 16936]),
        (test_lengths.mean(), [54345, 12872]),  # what the paper says it did
        (int(test_lengths.mean()), [54270, 12947]),
    ):
        groups = adjusted_split(lengths, 2, threshold=threshold)
        assert np.bincount(groups).tolist() == sizes


def test_epic_rubbish_class_of_table_8(epic):
    (lengths, actions), (test_lengths, test_actions) = epic
    members = class_members(actions)[0, 54]
    test_mean = class_means(test_lengths, test_actions)[0, 54]
    lengths = lengths[members]
    assert (len(lengths), test_mean) == (95, 305.5)
    assert lengths.mean() == pytest.approx(177.105, abs=0.001)
    for opposite, mean in ((False, 302.30), (True, 64.49)):
        gone = clips_to_remove(lengths, test_mean, delta=5, alpha=1, opposite=opposite)
        left = np.delete(lengths, gone)
        assert len(left) == 43 and left.mean() == pytest.approx(mean, abs=0.005)


def test_epic_removal_from_all_classes(epic):
    """The paper reports 2,392 clips of 164 classes, which its own delta and alpha do not give."""
    (lengths, actions), (test_lengths, test_actions) = epic
    test_means = class_means(test_lengths, test_actions)
    assert len(class_members(actions).keys() & test_means.keys()) == 1114
    for order, clips, classes in (('guard_first', 6998, 158), ('as_printed', 7845, 1005)):
        removed = removals(lengths, actions, test_means, delta=10, alpha=60, order=order)
        assert (sum(map(len, removed.values())), len(removed)) == (clips, classes)
