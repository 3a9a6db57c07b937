"""Sums of exponentials in linear and log space and of coded scores; kept tiles are made once."""

import pytest
import torch

from mmvtr.functional.similarities import tiles as tiles_module
from mmvtr.functional.similarities.tiles import Tiles, as_tiles, inner_products, score_gap
from mmvtr.functional.transforms import exp_sums
from mmvtr.functional.transforms.exp_sums import ExpSums
from mmvtr.functional.transforms.item_biases import fit_biases
from mmvtr.functional.transforms.sinkhorn import sinkhorn


def cosines(rows, columns, seed=0, dtype=torch.float32, width=8):
    random = torch.Generator().manual_seed(seed)
    q, g = (torch.randn(n, width, generator=random, dtype=dtype) + 0.5 for n in (rows, columns))
    unit = torch.nn.functional.normalize
    return unit(q, dim=1) @ unit(g, dim=1).t()


@pytest.mark.parametrize('temperature', [1.0, 0.05, 0.02, 0.005])  # of the last, in log space
@pytest.mark.parametrize('power', [1.0, 0.5])
def test_sums_are_those_of_double_precision(temperature, power):
    scores, scale = cosines(40, 90), torch.tensor(1 / temperature)
    la = torch.randn(40, generator=torch.Generator().manual_seed(1)) * 3
    log_c = torch.randn(90, generator=torch.Generator().manual_seed(2))
    x = scores.double() * scale.double() + la.double()[:, None]
    beta = power * (log_c.double() - x.logsumexp(0))
    sums = ExpSums(as_tiles(scores, entries=40 * 7), scale, scores)
    like = dict(rtol=0, atol=1e-6 / temperature * 0.1 + 5e-6)
    torch.testing.assert_close(sums.of_columns(la).double(), x.logsumexp(0), **like)
    found = sums.of_rows(la, log_c, power).rows.double()
    torch.testing.assert_close(found, (x + beta).logsumexp(1), **like)


def test_gradients_take_log_space(monkeypatch):
    scores = cosines(5, 6).requires_grad_()
    ExpSums(as_tiles(scores), torch.tensor(10.0), scores).of_columns(
        torch.zeros(5)
    ).sum().backward()
    torch.testing.assert_close(scores.grad, 10 * (10 * scores.detach()).softmax(0))
    la = torch.zeros(5, requires_grad=True)
    fixed = scores.detach()
    sums = ExpSums(as_tiles(fixed), torch.tensor(10.0), fixed)
    sums.of_columns(la).sum().backward()
    torch.testing.assert_close(la.grad, (10 * scores.detach()).softmax(0).sum(1))


@pytest.mark.parametrize('name', ['sinkhorn', 'unbalanced_sinkhorn', 'inverted_softmax'])
def test_biases_in_both_spaces(name, monkeypatch):
    bank = cosines(60, 300)
    linear = fit_biases(name, bank).items
    monkeypatch.setattr(exp_sums, 'FLOOR', torch.inf)
    torch.testing.assert_close(linear, fit_biases(name, bank).items, rtol=0, atol=1e-6)


def counted(rows, columns, width, dim=8):
    made, scores = [], cosines(rows, columns, width=dim)

    def tile(part):
        made.append((part.start, part.stop))
        return scores[:, part].clone()

    return Tiles((rows, columns), tile, width), made, scores


@pytest.mark.parametrize('entries, times', [(5 * 11, 1), (5 * 8, 2), (0, 3)])
def test_kept_tiles_are_made_once_and_are_the_same(entries, times, monkeypatch):
    monkeypatch.setattr(tiles_module, 'KEPT', 4 * entries)
    tiles, made, scores = counted(5, 11, 4)
    kept = tiles.kept()
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


def test_of_too_many_scores_codes_are_kept_and_the_exact_ones_made_twice(monkeypatch):
    """Once for the score gap, once for the last round; and biases are those of double precision."""
    tiles, made, scores = counted(200, 3000, 500, dim=64)
    whole = fit_biases('sinkhorn', scores)
    monkeypatch.setattr(tiles_module, 'KEPT', 200 * 3000)
    found = fit_biases('sinkhorn', tiles)
    assert [made.count((x, x + 500)) for x in range(0, 3000, 500)] == [2] * 6
    exact = sinkhorn(scores.double(), temperature=whole.options['temperature']).columns
    torch.testing.assert_close(found.items.double(), exact - exact.mean(), rtol=0, atol=1e-5)
    monkeypatch.setattr(tiles_module, 'KEPT', 200 * 1500)  # codes of half of them
    half = fit_biases('sinkhorn', tiles)
    torch.testing.assert_close(half.items, whole.items, rtol=0, atol=1e-5)


@pytest.mark.parametrize('name, options', [
    ('unbalanced_sinkhorn', dict(marginal_penalty=0.5)), ('inverted_softmax', {}),
    ('sinkhorn', dict(iterations=1)), ('sinkhorn', dict(iterations=2)),
    ('sinkhorn', dict(temperature=0.01)), ('sinkhorn', dict(temperature=2.0)),
    ('sinkhorn', dict(tolerance=0.01)), ('unbalanced_sinkhorn', {}),
])  # fmt: skip
def test_biases_of_coded_scores(name, options, monkeypatch):
    """The colder ones are too fine for the codes, the warmer ones for linear space."""
    tiles, _, scores = counted(200, 3000, 500, dim=64)
    whole = fit_biases(name, scores, **options).items
    monkeypatch.setattr(tiles_module, 'KEPT', 200 * 3000)
    torch.testing.assert_close(fit_biases(name, tiles, **options).items, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize('value', [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize('options', [{}, dict(temperature=0.1)])
def test_a_score_that_is_not_finite_is_named_coded_or_not(value, options, monkeypatch):
    tiles, _, scores = counted(20, 300, 50)
    scores[3, 120] = value
    for kept in (10**6, 20 * 300, 0):
        monkeypatch.setattr(tiles_module, 'KEPT', kept)
        with pytest.raises(ValueError, match=rf'bank\[3, 120\] is {value}'):
            fit_biases('sinkhorn', tiles, **options)
    with pytest.raises(ValueError, match=rf'scores\[3, 120\] is {value}'):
        score_gap(tiles)
