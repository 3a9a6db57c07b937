"""Clips and proposals against loops, and MS-SL's own pooling of features."""

import numpy as np
import pytest
import torch

from mmvtr.functional.similarities.best_frames import (
    clip_pooling,
    proposal_pooling,
    proposal_windows,
)


def test_proposals_are_all_runs_the_shortest_first():
    assert proposal_windows(3).tolist() == [[0, 1], [1, 2], [2, 3], [0, 2], [1, 3], [0, 3]]
    assert len(proposal_windows(32)) == 528
    clips = torch.randn(5, 3)
    means = [clips[start:stop].mean(0) for start, stop in proposal_windows(5).tolist()]
    torch.testing.assert_close(proposal_pooling(5) @ clips, torch.stack(means))


def means(x, count):
    """K means of the frames x [n, D], one by one."""
    edges = [round(i * len(x) / count) for i in range(count + 1)]  # halves to even, as MS-SL
    starts = [min(edge, len(x) - 1) for edge in edges[:-1]]
    return np.stack([x[a : max(b, a + 1)].mean(0) for a, b in zip(starts, edges[1:])])


def test_clips_against_loops():
    rng = np.random.default_rng(0)
    lengths = [1, 2, 3, 4, 5, 7, 11, 23]
    frames = rng.standard_normal((len(lengths), 23, 3))
    mask = np.arange(23) < np.array(lengths)[:, None]
    mask[:-1] = mask[:-1, ::-1]  # padding may stand anywhere
    mask[4] = rng.permutation(mask[4])
    weights = clip_pooling(torch.from_numpy(mask), 4, dtype=torch.float64)
    assert weights.shape == (8, 4, 23) and not weights.mT[torch.from_numpy(~mask)].any()
    clips = (weights @ torch.from_numpy(frames)).numpy()
    for x, valid, got in zip(frames, mask, clips):
        np.testing.assert_allclose(got, means(x[valid], 4), atol=1e-12)
    used = (weights[3:] > 0).sum(1)
    assert torch.equal(used, torch.from_numpy(mask[3:]).long())  # every frame is in one clip


@pytest.mark.parametrize('kind', ['long', 'short', 'exact'])
def test_clips_of_mssl(shared, kind):
    golden = np.load(shared / 'golden/mssl.npz')
    frames, expected = (golden[f'sample_{kind}_{part}'] for part in ('in', 'avgfix4'))
    every = torch.ones(1, len(frames), dtype=torch.bool)
    clips = (clip_pooling(every, 4)[0] @ torch.from_numpy(frames)).numpy()
    np.testing.assert_allclose(clips[:3], expected[:3], atol=1e-6)
    if kind == 'long':  # the official code never reads the last frame: 5 frames make its last clip
        expected[3] = (5 * expected[3] + frames[-1]) / 6
    np.testing.assert_allclose(clips[3], expected[3], atol=1e-6)
