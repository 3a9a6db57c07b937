"""Sums of exponentials in linear space are those in log space, and kept tiles are made once."""

import pytest
import torch

from mmvtr.functional.similarities.tiles import Tiles, as_tiles, inner_products
from mmvtr.functional.transforms import sinkhorn
from mmvtr.functional.transforms.item_biases import fit_biases
from mmvtr.functional.transforms.sinkhorn import ExpSums


def cosines(rows, columns, seed=0, dtype=torch.float32):
    random = torch.Generator().manual_seed(seed)
    q, g = (torch.randn(n, 8, generator=random, dtype=dtype) + 0.5 for n in (rows, columns))
    unit = torch.nn.functional.normalize
    return unit(q, dim=1) @ unit(g, dim=1).t()


@pytest.mark.parametrize('temperature', [1.0, 0.05, 0.02, 0.005])  # of the last, in log space
@pytest.mark.parametrize('strictness', [1.0, 0.5])
def test_sums_are_those_of_double_precision(temperature, strictness):
    scores, scale = cosines(40, 90), torch.tensor(1 / temperature)
    la = torch.randn(40, generator=torch.Generator().manual_seed(1)) * 3
    log_c = torch.randn(90, generator=torch.Generator().manual_seed(2))
    x = scores.double() * scale.double() + la.double()[:, None]
    beta = strictness * (log_c.double() - x.logsumexp(0))
    sums = ExpSums(as_tiles(scores, entries=40 * 7), scale)
    like = dict(rtol=0, atol=1e-6 / temperature * 0.1 + 5e-6)
    torch.testing.assert_close(sums.of_columns(la).double(), x.logsumexp(0), **like)
    found = sums.of_rows(la, log_c, strictness).double()
    torch.testing.assert_close(found, (x + beta).logsumexp(1), **like)


def test_gradients_take_log_space(monkeypatch):
    scores = cosines(5, 6).requires_grad_()
    ExpSums(as_tiles(scores), torch.tensor(10.0)).of_columns(torch.zeros(5)).sum().backward()
    torch.testing.assert_close(scores.grad, 10 * (10 * scores.detach()).softmax(0))
    la = torch.zeros(5, requires_grad=True)
    sums = ExpSums(as_tiles(scores.detach()), torch.tensor(10.0))
    sums.of_columns(la).sum().backward()
    torch.testing.assert_close(la.grad, (10 * scores.detach()).softmax(0).sum(1))


@pytest.mark.parametrize('name', ['sinkhorn', 'unbalanced_sinkhorn', 'inverted_softmax'])
def test_biases_in_both_spaces(name, monkeypatch):
    bank = cosines(60, 300)
    linear = fit_biases(name, bank).items
    monkeypatch.setattr(sinkhorn, 'RANGE', 0.0)
    torch.testing.assert_close(linear, fit_biases(name, bank).items, rtol=0, atol=1e-6)


def counted(rows, columns, width):
    made, scores = [], cosines(rows, columns)

    def tile(part):
        made.append((part.start, part.stop))
        return scores[:, part].clone()

    return Tiles((rows, columns), tile, width), made, scores


@pytest.mark.parametrize('entries, times', [(5 * 11, 1), (5 * 8, 2), (0, 3)])
def test_kept_tiles_are_made_once_and_are_the_same(entries, times):
    tiles, made, scores = counted(5, 11, 4)
    kept = tiles.kept(entries)
    for _ in range(3):
        assert torch.equal(torch.cat([x for _, x in kept.parts()], 1), scores)
    assert made.count((8, 11)) == (1 if times == 1 else 3)
    assert made.count((0, 4)) == (3 if times == 3 else 1)
    assert torch.equal(kept.columns(slice(1, 3)), scores[:, 1:3])
    assert torch.equal(kept.columns(slice(2, 9)), scores[:, 2:9])


def test_a_stored_matrix_is_not_copied():
    tiles = as_tiles(cosines(5, 11))
    assert tiles.kept() is tiles and not inner_products(torch.ones(2, 3), torch.ones(4, 3)).stored


def test_a_fit_makes_the_scores_of_its_bank_once():
    tiles, made, _ = counted(60, 300, 50)
    fit_biases('sinkhorn', tiles)
    assert len(made) == 6
