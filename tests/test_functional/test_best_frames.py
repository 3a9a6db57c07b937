import math

import pytest
import torch

from mmvtr.functional.similarities.best_frames import best_frames, paired_best_frames

T, V, F, D = 6, 4, 5, 3


@pytest.fixture
def data():
    """Texts [T, D], frames [V, F, D] and a mask; frames 1 and 3 of video 0 are equal; float64."""
    generator = torch.Generator().manual_seed(0)
    texts = torch.randn(T, D, generator=generator, dtype=torch.float64)
    frames = torch.randn(V, F, D, generator=generator, dtype=torch.float64)
    frames[0, 1] = texts[0] * 2
    frames[0, 3] = texts[0] * 2
    mask = torch.arange(F) < torch.tensor([5, 1, 3, 4])[:, None]
    return texts, frames, mask


def cosine(a, b):
    norm = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b)) / norm


def reference(texts, frames, mask, t, v):
    """Eq. 3: the score and the frame of one pair."""
    cosines = [cosine(texts[t].tolist(), frame) for frame in frames[v].tolist()]
    valid = [c for c, real in zip(cosines, mask[v].tolist()) if real]
    return max(valid), valid.index(max(valid))


@pytest.mark.parametrize('entries', [1, 2 * T * F, 2**22])
def test_equals_the_equation(data, entries):
    scores, index = best_frames(*data, entries=entries)
    for t in range(T):
        for v in range(V):
            score, place = reference(*data, t, v)
            assert scores[t, v].item() == pytest.approx(score, abs=1e-12)
            assert index[t, v] == place
    assert index[0, 0] == 1  # of equal frames the first


@pytest.mark.parametrize('entries', [1, 40, 2**22])
def test_chosen_pairs(data, entries):
    texts, frames, mask = data
    rows = torch.tensor([5, 0, 2, 2, 1, 0, 3, 0])
    columns = torch.tensor([3, 0, 0, 3, 0, 1, 3, 0])  # video 2 not at all, a pair twice
    everything = best_frames(*data)
    as_arrays = [x.numpy() for x in data]
    halves = [x.half().numpy() if x.is_floating_point() else x.numpy() for x in data]
    for given, bound in ((data, 1e-14), (as_arrays, 1e-14), (halves, 5e-3)):
        found = paired_best_frames(*given, rows, columns, entries=entries)
        scores, index = map(torch.as_tensor, found)
        assert (scores - everything.scores[rows, columns]).abs().max() < bound
        assert torch.equal(index, everything.index[rows, columns])
    none = torch.zeros(0, dtype=torch.long)
    assert [x.shape for x in paired_best_frames(*data, none, none)] == [(0,), (0,)]


def test_gradients(data):
    texts, frames, mask = data
    texts, frames = texts[1:].clone().requires_grad_(), frames.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda q, f: best_frames(q, f, mask, entries=2 * T * F).scores, (texts, frames)
    )


def test_half_precision_autocast_and_padding(data):
    texts, frames, mask = (x.float() if x.is_floating_point() else x for x in data)
    expected = best_frames(texts, frames, mask)
    padded = frames.masked_fill(~mask[..., None], 9.0)
    assert torch.equal(best_frames(texts, padded, mask).scores, expected.scores)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        assert torch.equal(best_frames(texts, frames, mask).scores, expected.scores)
    half = best_frames(texts.half(), frames.half(), mask).scores
    assert half.dtype == torch.float32 and (half - expected.scores).abs().max() < 2e-3


def test_empty_sides(data):
    texts, frames, mask = data
    assert best_frames(texts[:0], frames, mask).scores.shape == (0, V)
    assert best_frames(texts, frames[:0], mask[:0]).index.shape == (T, 0)


def test_bad_input(data):
    texts, frames, mask = data
    with pytest.raises(ValueError, match='must be .T, D.'):
        best_frames(texts[:, :2], frames, mask)
    mask = mask.clone()
    mask[2] = False
    with pytest.raises(ValueError, match='video 2 has no valid frame'):
        best_frames(texts, frames, mask)
    with pytest.raises(ValueError, match='video 2 has no valid frame'):
        paired_best_frames(texts, frames, mask, torch.tensor([0]), torch.tensor([0]))
