import importlib
import math

import numpy as np
import pytest
import torch

from mmvtr.functional.uncertainty.dataset_uncertainty import (
    PairMoments,
    UnitMean,
    dataset_uncertainty,
    mean_cosines,
)

module = importlib.import_module('mmvtr.functional.uncertainty.dataset_uncertainty')
Q, V, F, D = 7, 5, 4, 6


@pytest.fixture
def data():
    """Texts [Q, D], frames [V, F, D] and their mask; video 3 has one frame; float64."""
    generator = torch.Generator().manual_seed(0)
    texts = torch.randn(Q, D, generator=generator, dtype=torch.float64)
    frames = 3 * torch.randn(V, F, D, generator=generator, dtype=torch.float64)
    mask = torch.arange(F) < torch.tensor([4, 2, 3, 1, 4])[:, None]
    return texts, frames, mask


@pytest.fixture(params=[1, 10, 2**19], ids=['one item a block', 'few', 'all'])
def entries(request, monkeypatch):
    monkeypatch.setattr(module, 'ENTRIES', request.param * D)


def cosine(a, b):
    a, b = a.tolist(), b.tolist()
    norm = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b)) / norm if norm else 0.0


def by_the_map(texts, frames, mask):
    """Eq. 4 from the map M [Q, V, F], over valid frames."""
    valid = [(y, z) for y in range(len(frames)) for z in range(frames.shape[1]) if mask[y, z]]
    m = {(x, y, z): cosine(texts[x], frames[y, z]) for x in range(len(texts)) for y, z in valid}
    of_texts = [sum(m[x, y, z] for y, z in valid) / len(valid) for x in range(len(texts))]
    of_frames = torch.zeros(mask.shape, dtype=torch.float64)
    for y, z in valid:
        of_frames[y, z] = sum(m[x, y, z] for x in range(len(texts))) / len(texts)
    return torch.tensor(of_texts, dtype=torch.float64), of_frames


def test_equals_the_map(data, entries):
    expected = by_the_map(*data)
    found = dataset_uncertainty(*data)
    for ours, reference in zip(found, expected):
        assert ours.dtype == torch.float64
        torch.testing.assert_close(ours, reference, rtol=0, atol=1e-14)
    texts, frames, _ = data
    expected = by_the_map(texts, frames, torch.ones(V, F, dtype=torch.bool))
    for ours, reference in zip(dataset_uncertainty(texts, frames), expected):
        torch.testing.assert_close(ours, reference, rtol=0, atol=1e-14)


def test_half_precision_and_memory_maps(data, entries, tmp_path):
    texts, frames, mask = data
    texts, frames = texts.half(), frames.half()
    paths = [tmp_path / name for name in ('texts.npy', 'frames.npy', 'mask.npy')]
    for path, x in zip(paths, (texts, frames, mask)):
        np.save(path, x.numpy())
    mapped = [np.load(path, mmap_mode='r') for path in paths]
    expected = by_the_map(texts.double(), frames.double(), mask)
    for given in (mapped, (texts, frames, mask), (texts.bfloat16(), frames.bfloat16(), mask)):
        bound = 1e-6 if given[0].dtype != torch.bfloat16 else 2e-2
        for ours, reference in zip(dataset_uncertainty(*given), expected):
            assert isinstance(ours, np.ndarray) == isinstance(given[0], np.ndarray)
            ours = torch.as_tensor(ours)
            assert ours.dtype == torch.float32
            assert (ours.double() - reference).abs().max() < bound
    float64 = dataset_uncertainty(*(x.double().numpy() for x in (texts, frames)), mask.numpy())
    assert float64.frames.dtype == np.float64
    np.testing.assert_allclose(float64.frames, expected[1], rtol=0, atol=1e-14)


def test_under_autocast(data):
    texts, frames, mask = data
    expected = dataset_uncertainty(texts.float(), frames.float(), mask)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        found = dataset_uncertainty(texts.float(), frames.float(), mask)
    assert all(torch.equal(*pair) for pair in zip(found, expected))


def test_parts_and_merged_accumulators_equal_one_pass(data):
    _, frames, mask = data
    whole = UnitMean(D)
    assert whole.add(frames, mask) is None
    assert whole.count == int(mask.sum())
    parts = [UnitMean(D) for _ in range(3)]
    for i, part in enumerate((slice(0, 1), slice(1, 1), slice(1, V))):
        parts[i].add(frames[part], mask[part])
    for other in parts[1:]:
        parts[0].merge(other)
    assert parts[0].count == whole.count
    torch.testing.assert_close(parts[0].sum, whole.sum, rtol=0, atol=1e-14)
    summed = UnitMean(D)  # as an all-reduce of the totals does
    summed.totals += whole.totals / 4
    summed.totals += whole.totals * 3 / 4
    torch.testing.assert_close(summed.mean, whole.mean, rtol=0, atol=1e-14)


def test_no_gradient_and_no_lengths(data):
    texts, frames, mask = data
    texts = texts.clone().requires_grad_()
    found = dataset_uncertainty(texts, frames, mask)
    assert not found.texts.requires_grad
    longer = dataset_uncertainty(texts * torch.rand(Q, 1).add(0.1), 7 * frames, mask)
    for pair in zip(found, longer):
        torch.testing.assert_close(*pair, rtol=0, atol=1e-13)


def test_padding_never_counts_whatever_it_holds(data, entries):
    texts, frames, mask = data
    expected = dataset_uncertainty(texts, frames, mask)
    for filler in (0.0, 1e6, math.nan):
        found = dataset_uncertainty(texts, frames.masked_fill(~mask[..., None], filler), mask)
        assert all(torch.equal(*pair) for pair in zip(found, expected))
    assert not expected.frames[~mask].any() and expected.frames[mask].all()


def test_a_zero_vector_has_cosine_zero(data):
    texts, frames, mask = data
    frames = frames.clone()
    frames[0, 0] = 0
    for ours, reference in zip(
        dataset_uncertainty(texts, frames, mask), by_the_map(texts, frames, mask)
    ):
        torch.testing.assert_close(ours, reference, rtol=0, atol=1e-14)


def test_mean_cosines_against_a_given_mean(data, entries):
    texts, frames, mask = data
    mean = torch.randn(D, dtype=torch.float64)
    expected = [mean.dot(x / x.norm()).item() for x in texts]
    assert mean_cosines(texts, mean).tolist() == pytest.approx(expected, abs=1e-14)
    added = UnitMean(D).add(frames, mask, against=mean)
    assert torch.equal(added, mean_cosines(frames, mean, mask))
    assert mean_cosines(frames[:0], mean).shape == (0, F)


def test_bad_input(data, entries):
    texts, frames, mask = data
    with pytest.raises(ValueError, match='no vectors'):
        _ = UnitMean(D).mean
    with pytest.raises(ValueError, match='no vectors'):
        dataset_uncertainty(texts, frames, torch.zeros_like(mask))
    with pytest.raises(ValueError, match=r'\[7, 6\] with mask none must be \[..., 5\]'):
        UnitMean(5).add(texts)
    with pytest.raises(ValueError, match=r'mask \[5, 3\] must be'):
        dataset_uncertainty(texts, frames, mask[:, :3])
    for bad in (math.nan, math.inf):
        frames = frames.clone()
        frames[2, 1, 0] = bad
        for given in (mask, None):
            total = UnitMean(D)
            with pytest.raises(ValueError, match='item 2 is not finite'):
                total.add(frames, given)
            assert not total.totals.any()


def pairs(dtype=torch.float64):
    """Texts and frames of 9 pairs, lengths far from 1, and two means."""
    generator = torch.Generator().manual_seed(1)
    texts, frames = (torch.randn(9, D, generator=generator, dtype=torch.float64) for _ in range(2))
    means = 0.3 * torch.randn(2, D, generator=generator, dtype=torch.float64)
    return (3 * texts).to(dtype), (0.2 * frames).to(dtype), *means


def by_pairs(texts, frames, text_mean, frame_mean):
    """Mean and deviation of Eq. 5 over pairs, one at a time."""

    def unit(x):
        norm = math.sqrt(sum(value * value for value in x)) or 1.0
        return [value / norm for value in x]

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b))

    found = [
        (dot(unit(t), frame_mean.tolist()) + dot(unit(f), text_mean.tolist())) / 2
        for t, f in zip(texts.tolist(), frames.tolist())
    ]
    mean = sum(found) / len(found)
    return mean, math.sqrt(sum((u - mean) ** 2 for u in found) / len(found))


def moments_of(texts, frames):
    moments = PairMoments(D)
    moments.add(texts, frames)
    return moments


def test_pair_uncertainty_equals_the_pairs_one_by_one():
    texts, frames, *means = pairs()
    expected = by_pairs(texts, frames, *means)
    assert expected[1] > 0.05
    assert moments_of(texts, frames).uncertainty(*means) == pytest.approx(expected, abs=1e-13)
    frames[3] = 0  # its cosines are 0
    expected = by_pairs(texts, frames, *means)
    assert moments_of(texts, frames).uncertainty(*means) == pytest.approx(expected, abs=1e-13)


def test_pair_moments_are_of_any_precision():
    texts, frames, *means = pairs(torch.float16)
    expected = by_pairs(texts.double(), frames.double(), *means)
    found = moments_of(texts, frames).uncertainty(*(mean.float() for mean in means))
    assert found == pytest.approx(expected, abs=1e-7)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        assert torch.equal(
            moments_of(texts, frames).totals, moments_of(texts.double(), frames.double()).totals
        )


def test_pair_moments_of_parts_add_up():
    texts, frames, *means = pairs()
    parts = [moments_of(texts[rows], frames[rows]) for rows in (slice(0, 2), slice(2, 9))]
    parts += [moments_of(texts[:0], frames[:0])]
    joint = PairMoments(D)
    for part in parts:  # as an all-reduce of the totals does
        joint.totals += part.totals
    torch.testing.assert_close(joint.totals, moments_of(texts, frames).totals)
    assert joint.uncertainty(*means) == pytest.approx(by_pairs(texts, frames, *means), abs=1e-13)
    one_by_one = PairMoments(D)
    for row in range(9):
        one_by_one.add(texts[row : row + 1], frames[row : row + 1])
    torch.testing.assert_close(one_by_one.totals, joint.totals)


def test_equal_pairs_deviate_by_nothing():
    """The variance is a difference: rounding must not make it negative."""
    texts, frames, *means = pairs()
    for row in range(9):
        moments = moments_of(texts[[row] * 7], frames[[row] * 7])
        mean, deviation = moments.uncertainty(*means)
        assert mean == pytest.approx(by_pairs(texts[[row]], frames[[row]], *means)[0])
        assert 0 <= deviation < 1e-7


def test_no_pairs():
    with pytest.raises(ValueError, match='no pairs, so no uncertainty'):
        PairMoments(D).uncertainty(torch.zeros(D), torch.zeros(D))
