"""CMGSD's margins against loops in float64."""

import math

import pytest
import torch

from mmvtr.functional.losses.adaptive_margin import adaptive_margin, dissimilarities


def cosines(n, seed):
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = torch.nn.functional.normalize(x, dim=1)
    return x @ x.t()


#: 5 texts, 4 videos: text 1 has two videos, video 0 two texts; text 4 and video 3 have no partner.
POSITIVES = torch.tensor(
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool
)


def test_dissimilarities_equal_loops():
    texts, videos = cosines(5, 0), cosines(4, 1)
    omega, tau = dissimilarities(texts, videos, POSITIVES)
    for t in range(5):
        for v in range(4):
            own_videos = [videos[i, v].item() for i in range(4) if POSITIVES[t, i]]
            own_texts = [texts[t, i].item() for i in range(5) if POSITIVES[i, v]]
            for found, own in ((omega, own_videos), (tau, own_texts)):
                if own:
                    assert found[t, v].item() == pytest.approx(1 - sum(own) / len(own), abs=1e-12)
                else:
                    assert found[t, v].isnan()
    assert omega[0, 0] == pytest.approx(0, abs=1e-12)  # a video and itself


def test_margins_equal_loops():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    x[4], x[:, 3] = math.nan, math.nan
    margins = adaptive_margin(x, ~POSITIVES, alpha=0.2, beta=0.15)
    known = [(t, v) for t in range(4) for v in range(3)]
    among = [x[t, v].item() for t, v in known if not POSITIVES[t, v]]
    mean = sum(among) / len(among)
    std = math.sqrt(sum((value - mean) ** 2 for value in among) / len(among))
    for t in range(5):
        for v in range(4):
            expected = 0.2
            if (t, v) in known:
                expected = max(0.2 + 0.15 * (x[t, v].item() - mean) / std, 0)
            assert margins[t, v].item() == pytest.approx(expected, abs=1e-12)
    assert (margins == 0).any() and margins.max() > 0.3


def test_nothing_to_standardise():
    """All alike, nothing known, or no pair that is no match: alpha."""
    pairs = torch.ones(2, 2, dtype=torch.bool)
    for x, some in (
        (torch.full((2, 2), 0.5), pairs),
        (torch.full((2, 2), math.nan), pairs),
        (torch.rand(2, 2), ~pairs),
        (torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.bool)),
    ):
        margins = adaptive_margin(x, some, alpha=0.2, beta=0.1)
        torch.testing.assert_close(margins, torch.full_like(x, 0.2))


def test_half_precision_is_computed_in_float32():
    texts, videos = (cosines(n, seed).bfloat16() for n, seed in ((5, 0), (4, 1)))
    for x in dissimilarities(texts, videos, POSITIVES):
        assert x.dtype == torch.float32
