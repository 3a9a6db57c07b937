"""Two systems on the same queries: intervals, permutation tests, correction, each by a loop."""

import itertools
import math
import random

import numpy as np
import pytest

from mmvtr.evaluation.paired import bootstrap, holm, permutation_p


def test_all_signs_of_a_few():
    gains = np.array([3.0, -1.0, 2.0, 5.0, -2.0, 4.0, 0.0, 1.0])
    signs = itertools.product((1, -1), repeat=len(gains))
    sums = [abs(np.dot(sign, gains)) for sign in signs]
    assert permutation_p(gains) == pytest.approx(np.mean(np.array(sums) >= gains.sum() - 1e-9))
    assert permutation_p(-gains) == pytest.approx(permutation_p(gains))
    assert permutation_p(np.zeros(5)) == 1


def test_many_gains_of_one_sign_are_resolved_and_noise_is_not():
    draw = np.random.default_rng(1)
    assert permutation_p(draw.normal(1, 1, 200)) < 0.001
    ps = [permutation_p(draw.normal(0, 1, 60)) for _ in range(12)]
    assert 0.2 < np.mean(ps) < 0.8 and min(ps) > 0.001


def test_holm_by_hand():
    """Sorted .01 .02 .04 .2, times 4 3 2 1, and never below the one before."""
    assert holm([0.2, 0.01, 0.04, 0.02]) == pytest.approx([0.2, 0.04, 0.08, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0] and holm([]) == []


def slow_bootstrap(fields, draws=2000):
    """Percentiles of the resampled mean, one query at a time, by another generator."""
    dice, means = random.Random(3), []
    seeds = len(fields[0])
    for _ in range(draws):
        drawn = [[dice.randrange(len(f[0])) for _ in f[0]] for f in fields]
        total = 0.0
        for seed in (dice.randrange(seeds) for _ in range(seeds)):
            for f, those in zip(fields, drawn):
                total += sum(f[seed][q] for q in those) / len(those) / seeds
        means.append(total)
    means.sort()
    return means[int(0.025 * draws)], means[int(0.975 * draws)]


def test_bootstrap_is_that_of_a_loop():
    draw = np.random.default_rng(0)
    spread = np.array([[10.0], [0.0], [-4.0]])
    fields = [100 * draw.integers(-1, 2, (3, size)) + spread for size in (40, 25)]
    found = bootstrap(fields)
    expected = slow_bootstrap([f.tolist() for f in fields])
    width = expected[1] - expected[0]
    assert width > 20
    assert found == pytest.approx(expected, abs=0.06 * width)
    assert bootstrap(fields) == found


def test_bootstrap_of_one_seed_has_the_normal_width():
    values = 100.0 * np.random.default_rng(1).integers(-1, 2, (1, 900))
    low, high = bootstrap([values], draws=6000)
    half = 1.96 * values.std() / math.sqrt(900)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.4)


def test_pairs_of_equal_number_are_drawn_together():
    values = 100.0 * np.random.default_rng(2).integers(-1, 2, (1, 50))
    assert bootstrap([values, -values]) == (0.0, 0.0)
    twice = bootstrap([values, values])
    assert twice == pytest.approx([2 * end for end in bootstrap([values])])


def slow_clusters(fields, videos, draws=2000):
    """As above, but whole videos are drawn, each with all of its queries."""
    dice, means = random.Random(4), []
    seeds, found = len(fields[0]), sorted({video for those in videos for video in those})
    for _ in range(draws):
        drawn = [dice.choice(found) for _ in found]
        total = 0.0
        for seed in (dice.randrange(seeds) for _ in range(seeds)):
            for f, those in zip(fields, videos):
                values = [f[seed][q] for video in drawn for q, v in enumerate(those) if v == video]
                total += sum(values) / len(values) / seeds
        means.append(total)
    means.sort()
    return means[int(0.025 * draws)], means[int(0.975 * draws)]


def test_texts_of_a_video_are_drawn_with_it():
    draw = np.random.default_rng(5)
    videos = [np.repeat(np.arange(30), draw.integers(1, 5, 30)), np.arange(30)]
    of_video = 100.0 * draw.integers(-1, 2, (2, 30))
    fields = [of_video[:, videos[0]], of_video]  # the texts of a video agree: few are independent
    found = bootstrap(fields, videos)
    expected = slow_clusters([f.tolist() for f in fields], [v.tolist() for v in videos])
    width = expected[1] - expected[0]
    assert found == pytest.approx(expected, abs=0.06 * width)
    alone = bootstrap(fields)
    assert width > 1.3 * (alone[1] - alone[0])


def test_one_text_a_video_changes_nothing():
    fields = list(100.0 * np.random.default_rng(6).integers(-1, 2, (2, 3, 40)))
    assert bootstrap(fields, [np.arange(40)] * 2) == bootstrap(fields)
