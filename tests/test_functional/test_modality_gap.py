"""Mean cosines against the full matrices of cosines in float64."""

import math

import numpy as np
import pytest
import torch

from mmvtr.functional.metrics.modality_gap import modality_gap


@pytest.fixture
def embeddings():
    generator = torch.Generator().manual_seed(0)
    texts = torch.randn(9, 5, generator=generator) + 1
    videos = 3 * torch.randn(6, 5, generator=generator) - 1
    return texts, videos


def pairwise(texts, videos):
    """What the four numbers mean, from all pairs."""
    texts, videos = (x.double().numpy() for x in (texts, videos))
    texts, videos = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (texts, videos))
    within = [
        np.mean([x[i] @ x[j] for i in range(len(x)) for j in range(len(x)) if i != j])
        for x in (texts, videos)
    ]
    cross = np.mean([t @ v for t in texts for v in videos])
    return *within, cross, np.linalg.norm(texts.mean(0) - videos.mean(0))


@pytest.mark.parametrize('dtype', [torch.float64, torch.float32, torch.bfloat16])
def test_the_means_of_all_pairs(embeddings, dtype):
    texts, videos = (x.to(dtype) for x in embeddings)
    expected = pairwise(texts, videos)
    np.testing.assert_allclose(modality_gap(texts, videos), expected, rtol=1e-5)


def test_lengths_do_not_matter(embeddings):
    texts, videos = embeddings
    scaled = modality_gap(texts * torch.rand(9, 1).add(0.1), videos * 1e-3)
    np.testing.assert_allclose(scaled, modality_gap(texts, videos), rtol=1e-5)


def test_two_opposite_cones():
    texts = torch.tensor([[1.0, 0.1], [1.0, -0.1]])
    gap = modality_gap(texts, -texts)
    angle = 2 * math.atan(0.1)
    assert float(gap.within_text) == pytest.approx(math.cos(angle))
    assert float(gap.within_video) == pytest.approx(math.cos(angle))
    assert float(gap.cross) == pytest.approx(-(math.cos(angle / 2) ** 2))
    assert float(gap.distance) == pytest.approx(2 * math.cos(angle / 2))


def test_items_that_are_all_the_same_have_no_gap():
    same = torch.randn(1, 512).expand(1000, 512)
    gap = modality_gap(same, same)
    assert [round(float(x), 6) for x in gap] == [1, 1, 1, 0]


def test_bad_input_is_named(embeddings):
    texts, videos = embeddings
    with pytest.raises(ValueError, match=r'texts \[9, 4\] and videos \[6, 5\] must be'):
        modality_gap(texts[:, 1:], videos)
    with pytest.raises(ValueError, match='1 videos have no pairs'):
        modality_gap(texts, videos[:1])
    for bad in (0.0, torch.nan, torch.inf):
        spoiled = texts.clone()
        spoiled[4] = bad
        with pytest.raises(
            ValueError, match=rf'texts\[4\] has the norm {bad}, so it has no direction'
        ):
            modality_gap(spoiled, videos)
