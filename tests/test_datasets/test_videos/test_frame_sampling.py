"""Frame sampling against CLIP4Clip's and DRL's index lists, and on hand-made clips."""

import re

import numpy as np
import pytest

from mmvtr.datasets.videos import frame_sampling
from mmvtr.datasets.videos.frame_sampling import (
    SAMPLING,
    per_second,
    per_second_random,
    sampling_named,
    segment_centre,
    segment_random,
    stride,
    uniform,
    window,
)


def at_rate(frames: int, rate: float) -> np.ndarray:
    return np.arange(frames) / rate


def test_golden_index_lists(shared):
    golden = np.load(shared / 'golden/frame_sampling.npz')
    for name in golden.files:
        frames, most = (int(n) for n in re.search(r'_n(\d+)_m(\d+)', name).groups())
        if name.startswith('drl'):
            rate = float(re.search(r'fps([\d.]+)', name).group(1))
            found = stride(at_rate(frames, rate), most)
        else:  # CLIP4Clip thins frames that are one second apart
            found = per_second(at_rate(frames, 1), most)
            np.testing.assert_array_equal(uniform(at_rate(frames, 25), most), golden[name])
        np.testing.assert_array_equal(found, golden[name], err_msg=name)


def test_uniform_keeps_both_ends_and_truncates():
    assert uniform(at_rate(10, 30), 4).tolist() == [0, 3, 6, 9]
    assert uniform(at_rate(11, 30), 4).tolist() == [0, 3, 6, 10]
    assert uniform(at_rate(3, 30), 4).tolist() == [0, 1, 2]


def test_per_second_goes_by_time_not_by_count():
    times = np.array([0.0, 0.1, 0.9, 1.0, 1.5, 4.2, 4.3, 5.1])  # nothing between 1.5 s and 4.2 s
    assert per_second(times, 12).tolist() == [0, 3, 5, 7]
    assert per_second(times, 2).tolist() == [0, 7]


def test_per_second_forgives_times_rounded_to_milliseconds():
    times = np.round(at_rate(91, 30), 3) - 0.0004
    assert per_second(times, 12).tolist() == [0, 30, 60, 90]


def numbered_pictures(frames: int, offset: int, most: int) -> list[int]:
    """UATVR's training by numbers of pictures from 1 on, 30 a second; then CLIP4Clip's slice 2.

    Its comparison also leaves out the clip's very last picture, which is kept here.
    """
    numbers = [1 + offset + 30 * second for second in range(frames)]
    taken = [number - 1 for number in numbers if number <= frames]
    if len(taken) > most:
        taken = [taken[i * (len(taken) - 1) // (most - 1)] for i in range(most)]
    return taken


@pytest.mark.parametrize('frames', [30, 31, 59, 60, 89, 361, 391, 900])
def test_random_seconds_are_uatvrs(frames):
    """All of its 29 offsets occur, and nothing else."""
    times = np.round(at_rate(frames, 30), 3)
    np.random.seed(0)
    found = {tuple(per_second_random(times, 12).tolist()) for _ in range(600)}
    assert found == {tuple(numbered_pictures(frames, offset, 12)) for offset in range(29)}


@pytest.mark.parametrize('rate', [1, 12.5, 24, 29.97, 50])
def test_random_seconds_at_other_rates(rate):
    """They begin with any frame of the first second but its last, and go on every second."""
    times = at_rate(400, rate)
    np.random.seed(0)
    drawn = [per_second_random(times, 999) for _ in range(600)]
    within = sum(times < 1 - 1e-3)
    assert {found[0] for found in drawn} == set(range(max(1, within - 1)))
    for found in drawn:
        steps = np.diff(times[found])
        assert np.all((steps > 1 - 1 / rate) & (steps < 1 + 1 / rate))
        assert abs(times[found[-1]] - times[found[0]] - len(steps)) < 1 / rate


@pytest.mark.parametrize('frames', [1, 2, 3, 20, 29])
def test_random_seconds_of_a_clip_of_less_than_a_second(frames):
    """UATVR's code finds no picture where the offset is past the end."""
    np.random.seed(0)
    found = [per_second_random(at_rate(frames, 30), 12).tolist() for _ in range(300)]
    assert sorted(map(tuple, {tuple(f) for f in found})) == [
        (first,) for first in range(max(1, frames - 1))
    ]


def test_stride_of_a_single_frame():
    assert stride(np.array([0.0]), 12).tolist() == [0]


@pytest.mark.parametrize('frames, most', [(12, 12), (13, 12), (37, 5), (300, 12)])
def test_segments_partition_the_clip(frames, most):
    times = at_rate(frames, 25)
    edges = np.arange(most + 1) * frames // most
    centre = segment_centre(times, most)
    for seed in range(20):
        np.random.seed(seed)
        drawn = segment_random(times, most)
        assert np.all((edges[:-1] <= drawn) & (drawn < edges[1:]))
    assert np.all((edges[:-1] <= centre) & (centre < edges[1:]))


def test_segment_random_reaches_every_frame_and_follows_the_seed():
    times = at_rate(10, 25)
    np.random.seed(3)
    first = [segment_random(times, 3).tolist() for _ in range(200)]
    np.random.seed(3)
    assert first == [segment_random(times, 3).tolist() for _ in range(200)]
    assert set(np.ravel(first)) == set(range(10))


@pytest.mark.parametrize('kind', SAMPLING)
def test_short_clips_give_what_they_have_without_repeats(kind):
    for frames in (1, 2, 5):
        found = SAMPLING[kind](at_rate(frames, 1), 12)
        assert found.tolist() == list(range(frames))


def test_unknown_kind_lists_the_known():
    with pytest.raises(ValueError, match="'unifrom'.*segment_random.*uniform"):
        sampling_named('unifrom')


def test_window_holds_the_frames_on_screen():
    times = at_rate(50, 10)
    assert window(times, None, None) == slice(0, 50)
    assert window(times, 1.0, 2.0) == slice(10, 20)
    assert window(times, 1.05, 1.95) == slice(10, 20)
    assert window(times, 1.02, 1.08) == slice(10, 11)
    assert window(times, 4.95, 99.0) == slice(49, 50)
    assert window(np.array([0.0]), None, 5.0) == slice(0, 1)


@pytest.mark.parametrize('start, end', [(5.1, 6.0), (2.0, 2.0), (3.0, 1.0)])
def test_window_without_frames_is_an_error(start, end):
    with pytest.raises(ValueError, match='the video lasts 5.00 s'):
        window(at_rate(50, 10), start, end)


def first_of_each_second(times: np.ndarray, rate: int = 1) -> list[int]:
    """By going through all ticks of the span."""
    ticks = times[0] + np.arange(int((times[-1] - times[0] + 1e-3) * rate) + 1) / rate - 1e-3
    return sorted({int(np.argmax(times >= tick)) for tick in ticks if (times >= tick).any()})


@pytest.mark.parametrize('seed', range(20))
def test_first_frames_of_seconds_are_found_without_counting_seconds(seed):
    random = np.random.default_rng(seed)
    times = np.cumsum(random.choice([0.001, 0.033, 0.04, 0.5, 1.0, 7.25], 60)).round(3)
    times += random.choice([0.0, 2.0])
    assert per_second(times, 99).tolist() == first_of_each_second(times)
    for rate in (2, 5, 25):
        stored = {*first_of_each_second(times, rate), *first_of_each_second(times), 59}
        assert frame_sampling.at_rate(times, rate).tolist() == sorted(stored)


@pytest.mark.parametrize('jump', [1.7e9, 1e10, 1e12])
def test_the_cost_is_that_of_the_frames(jump):
    """A recorder that begins at 0 and goes on with the time of the day."""
    times = np.array([0.0, 0.04, jump, jump + 0.5, jump + 1.0])
    assert per_second(times, 12).tolist() == [0, 2, 4]
    assert frame_sampling.at_rate(times, 2).tolist() == [0, 2, 3, 4]


def test_a_window_before_the_first_picture_is_empty():
    times = 2.0 + at_rate(40, 10)
    assert window(times, 1.0, 2.5) == slice(0, 5)
    assert window(times, 0.0, 2.05) == slice(0, 1)
    assert window(times, 2.5, None) == slice(5, 40)
    for end in (1.0, 1.99, 2.0):
        with pytest.raises(ValueError, match='lasts 6.00 s, and shows its first picture at 2.00 s'):
            window(times, 0.0, end)
