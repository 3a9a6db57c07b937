import pytest
import torch

from mmvtr.functional.similarities.best_frames import highest


def test_the_best_of_the_candidates_and_ties_from_the_left():
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.5, 0.5], [1.0, 2.0, 3.0, 4.0, 5.0]])
    candidates = torch.tensor([[1, 0, 1, 1, 1], [1, 0, 0, 0, 0]]).bool()
    assert highest(scores, candidates, 2).int().tolist() == [[0, 0, 1, 1, 0], [1, 0, 0, 0, 0]]
    assert torch.equal(highest(scores, candidates, 5), candidates)
    assert torch.equal(highest(scores, candidates, 9), candidates)
    assert not highest(scores, torch.zeros_like(candidates), 2).any()
    assert highest(scores[:0], candidates[:0], 2).shape == (0, 5)


def test_every_k_keeps_what_a_sort_keeps():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 4, (20, 9), generator=generator).float()  # many ties
    candidates = torch.rand(20, 9, generator=generator) < 0.7
    for k in range(1, 10):
        found = highest(scores, candidates, k)
        for s, c, kept in zip(scores.tolist(), candidates.tolist(), found):
            order = sorted((i for i in range(9) if c[i]), key=lambda i, s=s: (-s[i], i))
            assert kept.nonzero().flatten().tolist() == sorted(order[:k])


def test_k_below_one():
    with pytest.raises(ValueError, match='k must be at least 1'):
        highest(torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool), 0)
