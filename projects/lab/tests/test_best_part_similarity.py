"""The similarity of a text to the best part of a video, compared with loops; refused inputs."""

import pytest
import torch
import torch.nn.functional as F
from study_parts.best_part import BestPartSimilarity

from mmvtr.structures import Embedding


def items(lengths, dim=4):
    """Return texts, and videos with these numbers of frames, padded to the longest."""
    torch.manual_seed(0)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    tokens = torch.randn(*mask.shape, dim)
    return {'global': Embedding(torch.randn(5, dim))}, {
        'global': Embedding(torch.zeros(len(lengths), dim), tokens, mask)
    }


def test_equals_loops_and_does_not_see_padding():
    texts, videos = items([6, 7, 3])
    expected = torch.empty(5, 3)
    for v, parts in enumerate(
        [[[0, 1], [2, 3], [4, 5]], [[0, 1, 2], [3, 4], [5, 6]], [[0], [1], [2]]]
    ):
        for t, text in enumerate(F.normalize(texts['global'].mean, dim=-1)):
            frames = F.normalize(videos['global'].tokens[v], dim=-1)
            means = [F.normalize(frames[part].mean(0), dim=0) for part in parts]
            expected[t, v] = max(text @ mean for mean in means)
    matrices = BestPartSimilarity(parts=3)(texts, videos)
    assert torch.allclose(matrices['scores'], expected, atol=1e-6)
    assert matrices['part'] is matrices['scores']


def test_a_video_with_fewer_frames_than_parts_or_none_is_an_error():
    with pytest.raises(ValueError, match='2 frames has no 3 parts'):
        BestPartSimilarity(parts=3)(*items([6, 2]))
    texts, videos = items([6])
    with pytest.raises(ValueError, match='no tokens'):
        BestPartSimilarity(parts=3)(texts, {'global': videos['global'].global_only()})
    with pytest.raises(ValueError, match='parts'):
        BestPartSimilarity(parts=0)
