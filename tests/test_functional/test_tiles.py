"""Tiles cover the matrix once, in any width, from tensors, arrays and mapped files."""

import numpy as np
import pytest
import torch

from mmvtr.functional.similarities.tiles import (
    Tiles,
    as_tiles,
    inner_products,
    refuse_empty,
    refuse_non_finite,
    score_gap,
)
from mmvtr.functional.transforms.item_biases import fit_biases


def embeddings(queries=6, gallery=11, dim=4):
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(n, dim, generator=generator) for n in (queries, gallery))


def assembled(tiles):
    """The matrix of one pass, and the widths of its tiles."""
    pieces = [scores for _, scores in tiles.parts()]
    return torch.cat(pieces, dim=1), [piece.shape[1] for piece in pieces]


@pytest.mark.parametrize(
    'entries, widths', [(1, [1] * 11), (6 * 4 + 3, [4, 4, 3]), (6 * 11, [11]), (10**6, [11])]
)
def test_a_pass_covers_the_matrix_once_in_tiles_of_the_asked_size(entries, widths):
    queries, gallery = embeddings()
    scores = queries @ gallery.t()
    for tiles in (
        as_tiles(scores, entries=entries),
        inner_products(queries, gallery, entries=entries),
    ):
        found, found_widths = assembled(tiles)
        torch.testing.assert_close(found, scores)
        assert found_widths == widths and tiles.shape == (6, 11)
        parts = [part for part, _ in tiles.parts()]
        assert [i for part in parts for i in range(part.start, part.stop)] == list(range(11))


def test_tiles_are_made_on_demand_and_one_at_a_time():
    made = []

    def columns(part):
        made.append(part)
        return torch.zeros(2, part.stop - part.start)

    passing = Tiles((2, 10), columns, 4).finite().parts()
    assert made == []
    next(passing)
    assert made == [slice(0, 4)]


@pytest.mark.parametrize('stored', [torch.float16, torch.bfloat16])
def test_stored_half_precision_is_read_in_float32(stored):
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(stored)
    found, _ = assembled(as_tiles(scores, entries=6))
    assert found.dtype == torch.float32 and torch.equal(found, scores.float())
    double, _ = assembled(as_tiles(scores.double()))
    assert double.dtype == torch.float64


@pytest.mark.parametrize('dtype', ['float16', 'float32', 'float64'])
def test_inner_products_of_mapped_files_are_those_of_their_vectors(tmp_path, dtype):
    queries, gallery = embeddings()
    np.save(tmp_path / 'gallery.npy', gallery.numpy().astype(dtype))
    mapped = np.load(tmp_path / 'gallery.npy', mmap_mode='r')
    found, _ = assembled(inner_products(queries.numpy(), mapped, entries=20))
    expected = queries @ torch.from_numpy(np.array(mapped)).float().t()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)


def test_inner_products_read_only_the_rows_of_their_tile():
    queries, gallery = embeddings()
    asked = []

    class Recorder(np.ndarray):
        def __getitem__(self, key):
            asked.append(key)
            return np.asarray(super().__getitem__(key))

    tiles = inner_products(queries, gallery.numpy().view(Recorder), entries=24)
    assert asked == []
    tiles.columns(slice(4, 8))
    assert asked == [slice(4, 8)]


def test_half_precision_embeddings_are_multiplied_in_float32():
    queries, gallery = (x.half() for x in embeddings(dim=512))
    with torch.autocast('cpu', dtype=torch.bfloat16):
        found, _ = assembled(inner_products(queries, gallery))
    exact = queries.double() @ gallery.double().t()
    assert (found - exact).abs().max() < 1e-4  # products in float16 are off by a hundredth


@pytest.mark.parametrize('entries', [6, 24, 10**6])
def test_per_column_joins_what_each_tile_gives(entries):
    queries, gallery = embeddings()
    scores = (queries @ gallery.t()).double().requires_grad_()
    found = as_tiles(scores, entries=entries).per_column(lambda tile: tile.square().sum(0))
    torch.testing.assert_close(found, scores.square().sum(0))
    (slope,) = torch.autograd.grad(found.sum(), scores)
    torch.testing.assert_close(slope, 2 * scores)


def test_tiles_stay_as_they_are():
    tiles = as_tiles(torch.zeros(2, 3), entries=4)
    assert as_tiles(tiles, entries=1) is tiles


@pytest.mark.parametrize('value', [torch.nan, torch.inf, -torch.inf])
def test_a_score_that_is_not_finite_is_named_with_its_place_in_the_whole_matrix(value):
    scores = torch.zeros(3, 8)
    scores[2, 6] = value
    message = rf'bank\[2, 6\] is {value}, expected finite scores'
    with pytest.raises(ValueError, match=message):
        refuse_non_finite(scores, name='bank')
    tiles = as_tiles(scores, entries=6)._replace(name='bank').finite()
    passing = tiles.parts()
    for _ in range(3):
        next(passing)
    with pytest.raises(ValueError, match=message):
        next(passing)


def test_large_finite_scores_pass():
    assert refuse_non_finite(torch.full((2, 4), 3e38)) is None  # their sum is infinite
    assert refuse_non_finite(torch.empty(0, 4)) is None


@pytest.mark.parametrize(
    'shape, what', [((0, 4), r'queries \(rows\)'), ((4, 0), r'gallery items \(columns\)')]
)
def test_empty_matrices_are_named(shape, what):
    with pytest.raises(ValueError, match=rf'scores \[{shape[0]}, {shape[1]}\] has no {what}'):
        refuse_empty(as_tiles(torch.zeros(shape)))


@pytest.mark.parametrize('wrong', [torch.zeros(3), torch.zeros(2, 2, 2), torch.ones(2, 2).long()])
def test_what_is_no_float_matrix_is_refused(wrong):
    with pytest.raises(ValueError, match='a score matrix must be float .queries, gallery., not'):
        as_tiles(wrong)


@pytest.mark.parametrize('shapes', [((3, 4), (5, 3)), ((3,), (5, 3)), ((3, 4), (2, 5, 4))])
def test_embeddings_that_do_not_fit_are_refused(shapes):
    with pytest.raises(ValueError, match=r'queries \[.*\] and gallery \[.*\] must be \[Q, D\]'):
        inner_products(*(torch.zeros(shape) for shape in shapes))


@pytest.mark.parametrize('value', [0.1, 0.7, 3.3])
def test_constant_scores_reach_nothing(value):
    """To the bit, or a temperature in shares of the score gap would be noise."""
    assert score_gap(torch.full((20, 1000), value)) == 0
    with pytest.raises(ValueError, match='alike'):
        fit_biases('sinkhorn', torch.full((20, 1000), value), temperature='20%')


def test_reach_is_that_of_its_definition():
    scores = torch.randn(30, 500, generator=torch.Generator().manual_seed(0)) + 100
    exact = scores.double()
    expected = (exact.amax(1) - exact.mean(1)).mean().item()
    assert score_gap(as_tiles(scores, entries=3000)) == pytest.approx(expected, rel=1e-5)
