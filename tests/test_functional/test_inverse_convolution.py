"""InvGC against published numbers, and against loops that spell it out."""

import numpy as np
import pytest
import torch

from mmvtr.functional import inverse_convolution, invgc


def golden_of(shared, size):
    with np.load(shared / 'golden' / 'invgc.npz', allow_pickle=False) as arrays:
        found = {
            key.removeprefix(f'{size}.'): x for key, x in arrays.items() if key.startswith(size)
        }
    return {key: torch.from_numpy(x) for key, x in found.items()}


def vectors(rows, seed):
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize('size', ['tiny', 'mid'])
@pytest.mark.parametrize('strength', [0.2, 1])
@pytest.mark.parametrize('form, share', [('avg', None), ('local', 0.3)])
def test_golden_steps(shared, size, strength, form, share):
    golden = golden_of(shared, size)
    found = inverse_convolution(
        golden['video'], golden['bank_video'], strength=strength, share=share
    )
    name = f'{form}_r{strength}{"" if share is None else f"_p{share}"}'
    torch.testing.assert_close(found, golden[f'{name}_norm0.video'], atol=1e-5, rtol=0)
    unit = torch.nn.functional.normalize(found, dim=1)
    torch.testing.assert_close(unit, golden[f'{name}_norm1.video'], atol=1e-5, rtol=0)


@pytest.mark.parametrize('size', ['tiny', 'mid'])
@pytest.mark.parametrize('items, queries', [(0.2, 0.4), (1, 0.1)])
@pytest.mark.parametrize('name, share', [('avg', None), ('local0.3', 0.3), ('local0.55', 0.55)])
def test_golden_invgc(shared, size, items, queries, name, share):
    golden = golden_of(shared, size)
    moved = invgc(
        golden['video'],
        items=golden['bank_video'],
        queries=golden['bank_text'],
        item_strength=items,
        query_strength=queries,
        share=share,
    )
    expected = golden[f'invgc_rg{items}_rq{queries}_{name}.scores']
    torch.testing.assert_close(golden['text'] @ moved.t(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize('share, k', [(None, 7), (0.3, 2), (1.0, 7)])
def test_each_vector_loses_what_it_shares_with_the_bank(share, k):
    gallery, bank = vectors(5, 0), vectors(7, 1)
    similar = [[sum(a * b for a, b in zip(x, y)).item() for y in bank] for x in gallery]
    mean = sum(map(sum, similar)) / 35 if share is None else 0.0
    expected = gallery.clone()
    for i, row in enumerate(similar):
        for j in sorted(range(7), key=lambda j: -row[j])[:k]:
            expected[i] -= 0.6 / k * (row[j] - mean) * bank[j]
    found = inverse_convolution(gallery, bank, strength=0.6, share=share)
    torch.testing.assert_close(found, expected)


def test_a_hub_loses_queries():
    gallery = torch.nn.functional.normalize(vectors(20, 0), dim=1)
    common = torch.nn.functional.normalize(torch.ones(4), dim=0).double()
    gallery[0] = common
    texts = torch.nn.functional.normalize(vectors(60, 1) + 1.5 * common, dim=1)
    asked, bank = texts[:30], texts[30:]
    moved = inverse_convolution(gallery, bank, strength=0.5, share=0.5)
    lost = [((asked @ x.t()).argmax(1) == 0).sum().item() for x in (gallery, moved)]
    assert lost[1] < lost[0]


@pytest.mark.parametrize('share', [None, 0.4])
def test_a_few_items_at_a_time(share, monkeypatch):
    gallery, bank = vectors(9, 0), vectors(7, 1)
    whole = inverse_convolution(gallery, bank, strength=0.6, share=share)
    monkeypatch.setattr('mmvtr.functional.transforms.dual_banks.ENTRIES', 14)

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            if function is torch.ops.aten.mm.default:
                self.largest = max(self.largest, found.numel())
            return found

    with Seen() as seen:
        found = inverse_convolution(gallery, bank, strength=0.6, share=share)
    torch.testing.assert_close(found, whole)
    assert 0 < seen.largest <= 14


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    gallery, bank = vectors(5, 0).to(dtype), vectors(7, 1).to(dtype)
    found = inverse_convolution(gallery, bank, strength=0.5)
    assert found.dtype == torch.float32
    torch.testing.assert_close(
        found, inverse_convolution(gallery.float(), bank.float(), strength=0.5)
    )


@pytest.mark.parametrize(
    'how, said',
    [
        (dict(share=0.1), 'is less than one vector'),
        (dict(share=1.5), r'must lie in \(0, 1\]'),
        (dict(strength=float('nan')), 'must be finite'),
        (dict(bank=torch.ones(3, 5)), r'must be \[N, D\] and \[M, D\]'),
        (dict(bank=torch.ones(0, 4)), 'none of them 0'),
    ],
)
def test_what_does_not_fit_is_named(how, said):
    with pytest.raises(ValueError, match=said):
        inverse_convolution(
            **{**dict(gallery=vectors(5, 0), bank=vectors(7, 1), strength=0.5), **how}
        )
