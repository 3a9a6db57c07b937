import math

import numpy as np
import pytest
import torch

from mmvtr.functional import dataset_uncertainty as module
from mmvtr.functional.dataset_uncertainty import UnitMean, dataset_uncertainty, mean_cosines

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
            assert ours.dtype == torch.float32
            assert (ours.double() - reference).abs().max() < bound
    float64 = dataset_uncertainty(*(x.double().numpy() for x in (texts, frames)), mask.numpy())
    assert float64.frames.dtype == torch.float64
    torch.testing.assert_close(float64.frames, expected[1], rtol=0, atol=1e-14)


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
