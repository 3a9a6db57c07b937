"""A score matrix that is read in column tiles, which are made on demand.

A bank of 16,384 queries against a million gallery items is 65 GB of scores and 2 GB of embeddings:
algorithms that read each score once use tiles and never hold the matrix.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.values import arrays_too, at_least_float32, product

__all__ = ['Tiles', 'as_tiles', 'inner_products', 'score_gap']

#: Scores in a tile: 16 MiB of float32 fit a cache, and a matrix product is still at full speed.
ENTRIES = 2**22
#: The same for a GPU, which smaller tiles leave idle: on an H100 Sinkhorn of 16,384 x 27,763 scores
#: takes 252 ms with 2**22, 86 ms with 2**25 and 75 ms with 2**27.
GPU_ENTRIES = 2**25
#: Bytes of scores that :meth:`Tiles.kept` and :meth:`Tiles.coded` keep.
KEPT = 384 * 2**20
#: Scores in a block of a tile that fits a CPU's second-level cache.
BLOCK = 2**20
#: Columns of a tile are a multiple of it: a product with unaligned rows takes half as long again.
ALIGNED = 64


class _Codes:
    """Quantised tiles of scores [Q, N], lowest + step * (0 to 255), written when first made.

    A code is wrong by at most half a step with either sign: sums of many exponentials hardly
    change.
    """

    def __init__(self, shape: tuple[int, int], width: int) -> None:
        self._shape, self._width = shape, width
        self._columns = min(shape[1], KEPT // max(1, shape[0]) // width * width)
        self._codes = self._ranges = self._room = torch.empty(0)
        self._written: set[int] = set()

    @property
    def step(self) -> Tensor:
        """The largest step so far, 0-dim."""
        return _step(*self._ranges.t()).max() if self._written else torch.tensor(0.0)

    def write(self, part: slice, tile: Tensor) -> None:
        """Keep a whole tile [Q, n] at its first write; ignore other slices."""
        stop = min(part.start + self._width, self._shape[1])
        whole = part.start % self._width == 0 and part.stop == stop
        if not whole or stop > self._columns or part.start in self._written:
            return
        tile = tile.detach()
        if not self._written:
            size = (self._columns, self._shape[0])
            self._codes = torch.empty(size, dtype=torch.uint8, device=tile.device)
            self._ranges = tile.new_zeros(-(-self._shape[1] // self._width), 2)
        low, high = self._ranges[part.start // self._width] = extent(tile)
        step = _step(low, high)
        for block, scores in column_blocks(tile):
            if not len(self._room):  # the first block is the largest
                self._room = torch.empty_like(scores.t(), memory_format=torch.contiguous_format)
            room = torch.sub(scores.t(), low, out=self._room[: scores.shape[1]])
            room.mul_(1 / step).add_(0.5)  # the conversion to integers truncates
            self._codes[part.start + block.start : part.start + block.stop] = room
        self._written.add(part.start)

    def of(self, part: slice) -> Optional[tuple[Tensor, Tensor, Tensor]]:
        """Return codes uint8 [Q, n] of a whole tile, its :func:`extent` and the step."""
        if part.start not in self._written:
            return None
        extent = self._ranges[part.start // self._width]
        return self._codes[part].t(), extent, _step(*extent)


class Tiles(NamedTuple):
    """A matrix [Q, N] of scores: rows are queries, columns are the gallery.

    Attributes:
        shape: (Q, N).
        columns: returns the float scores [Q, n] of a slice of n gallery columns, finite or not.
        width: gallery columns a tile; the last one may be narrower.
        name: name of the matrix in error messages.
        stored: whether the scores are in memory, so that keeping tiles would gain nothing.
        codes: 8-bit scores of tiles that were made before; None = no codes.
    """

    shape: tuple[int, int]
    columns: Callable[[slice], Tensor]
    width: int
    name: str = 'scores'
    stored: bool = False
    codes: Optional[_Codes] = None

    @classmethod
    def of(
        cls,
        shape: tuple[int, int],
        columns: Callable[[slice], Tensor],
        *,
        name: str = 'scores',
        entries: Optional[int] = None,
        device: str | torch.device = 'cpu',
    ) -> 'Tiles':
        """Return tiles of ``entries`` scores each, at least one column.

        Args:
            entries: default: a size that suits ``device``, where the tiles are made.
        """
        limit = ENTRIES if torch.device(device).type == 'cpu' else GPU_ENTRIES
        return cls(
            shape, columns, tile_width(shape[0], limit if entries is None else entries), name
        )

    def parts(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield each tile's columns and its scores [Q, n], in one pass."""
        for start in range(0, self.shape[1], self.width):
            part = slice(start, min(start + self.width, self.shape[1]))
            yield part, self.columns(part)

    def per_column(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return ``function`` of every tile, [Q, n] -> [n], in one vector [N]; differentiable.

        Written in place: small results that outlive their tiles fragment the heap, the next tile
        then finds no room, and memory grows with every tile.
        """
        result = torch.empty(0)
        for part, tile in self.parts():
            values = function(tile)
            if part.start == 0:
                result = values.new_empty(self.shape[1])
            result[part] = values
        return result

    def best(
        self, k: int, change: Callable[[slice, Tensor], Tensor] = lambda part, tile: tile
    ) -> tuple[Tensor, Tensor]:
        """Return the k highest of each row, or all if there are fewer, and their columns.

        Of equal scores the lowest column comes first, whatever k is.

        Args:
            k: 1 or more.
            change: from a tile's columns and its scores to the float [Q, n] to compare.

        Returns:
            float [Q, k], best first, and int64 [Q, k].
        """
        values, places = [], []
        for part, tile in self.parts():
            top = top_of_rows(change(part, tile), k)
            both = torch.cat([*values, top[0]], 1)
            here = torch.cat([*places, top[1] + part.start], 1)
            order = both.sort(dim=1, descending=True, stable=True).indices[:, :k]
            values, places = [both.gather(1, order)], [here.gather(1, order)]
        return values[0], places[0]

    def kept(self) -> 'Tiles':
        """Return the same tiles; the first ones are kept in memory, the others made at each use.

        At most :data:`KEPT` bytes of float32 are kept.
        """
        if self.stored:
            return self
        most = KEPT // 4
        first = min(most // max(1, self.shape[0] * self.width) * self.width, self.shape[1])
        if most >= self.shape[0] * self.shape[1]:
            first = self.shape[1]
        blocks: dict[int, Tensor] = {}

        def columns(part: slice) -> Tensor:
            start = part.start // self.width * self.width
            stop = min(start + self.width, self.shape[1])
            if part.stop > min(stop, first):
                return self.columns(part)
            if start not in blocks:
                blocks[start] = self.columns(slice(start, stop))
            return blocks[start][:, part.start - start : part.stop - start]

        return self._replace(columns=columns, stored=first == self.shape[1])

    def coded(self) -> 'Tiles':
        """Return the same tiles, kept if they fit :data:`KEPT` bytes, else with 8-bit codes.

        :attr:`codes` then holds the first tiles, once they have been made, in as many bytes.
        """
        tiles = self.kept()
        if tiles.stored:
            return tiles
        codes = _Codes(self.shape, self.width)

        def columns(part: slice) -> Tensor:
            tile = self.columns(part)
            codes.write(part, tile)
            return tile

        return self._replace(columns=columns, codes=codes)

    def finite(self) -> 'Tiles':
        """Return the same tiles; making one raises ValueError if a score is not finite."""

        def columns(part: slice) -> Tensor:
            tile = self.columns(part)
            refuse_non_finite(tile, name=self.name, first_column=part.start)
            return tile

        return self._replace(columns=columns)


@arrays_too
def as_tiles(scores: Tensor | Tiles, *, entries: Optional[int] = None) -> Tiles:
    """Return tiles of a stored matrix; tiles are returned unchanged.

    Args:
        scores: float [Q, N], read when a tile is asked for and not copied; half precision is
            converted to float32 tile by tile.
        entries: scores a tile, at least one column; the default suits their device.

    Raises:
        ValueError: not a float matrix.

    Example:
        ::

            >>> tiles = as_tiles(torch.ones(2, 3), entries=4)
            >>> [scores.shape for _, scores in tiles.parts()]
            [torch.Size([2, 2]), torch.Size([2, 1])]
    """
    if isinstance(scores, Tiles):
        return scores
    if scores.dim() != 2 or not scores.is_floating_point():
        raise ValueError(
            f'a score matrix must be float [queries, gallery], not {scores.dtype} '
            f'{list(scores.shape)}'
        )
    shape = (scores.shape[0], scores.shape[1])
    how = dict(entries=entries, device=scores.device)
    tiles = Tiles.of(shape, lambda part: at_least_float32(scores[:, part]), **how)
    return tiles._replace(stored=True)


@arrays_too
def score_gap(scores: Tensor | Tiles) -> float:
    """Return how far a query's best score exceeds its mean, averaged over the queries.

    ``(scores.amax(1) - scores.mean(1)).mean()``: the unit in which temperatures transfer between
    the scores of different models (docs/judgments.md).

    Args:
        scores: float [Q, N], or its tiles.

    Raises:
        ValueError: a score that is not finite.

    Example:
        ::

            >>> round(score_gap(torch.tensor([[0.5, 0.1], [0.2, 0.4]])), 3)
            0.15
    """
    return Gaps.of(as_tiles(scores)).mean


class Gaps(NamedTuple):
    """What :func:`score_gap` needs of some columns of a matrix; the sum of two is of both.

    Attributes:
        first: float64 [Q], each row's first score.
        best, total: float64 [Q], the highest score and the sum, relative to the first score: sums
            of equal scores are then exactly 0.
        columns: how many.

    Example:
        ::

            >>> scores = torch.tensor([[0.5, 0.1], [0.2, 0.4]])
            >>> left, right = (Gaps.of(as_tiles(x)) for x in scores.split(1, dim=1))
            >>> round((left + right).mean, 3)
            0.15
    """

    first: Tensor
    best: Tensor
    total: Tensor
    columns: int

    @classmethod
    def of(cls, tiles: Tiles) -> 'Gaps':
        """Return those of all columns, in one pass.

        Raises:
            ValueError: a score that is not finite.
        """
        gaps = cls._read(tiles, None)
        # Sums of large finite scores may overflow; a second pass names a score that is not finite.
        return gaps if math.isfinite(gaps.mean) else cls._read(tiles.finite(), torch.float64)

    @classmethod
    def _read(cls, tiles: Tiles, dtype: Optional[torch.dtype]) -> 'Gaps':
        first = tiles.columns(slice(0, 1)).to(dtype=dtype, copy=True)
        best = torch.full_like(first[:, 0], -torch.inf)
        total = torch.zeros_like(first[:, 0]).double()
        for _, tile in tiles.parts():
            for _, block in column_blocks(tile):
                above = block - first
                best = torch.maximum(best, above.amax(1))
                total += above.sum(1)
        return cls(first[:, 0].double(), best.double(), total, tiles.shape[1])

    def __add__(self, other: 'Gaps') -> 'Gaps':
        apart = other.first - self.first
        return Gaps(
            self.first,
            torch.maximum(self.best, other.best + apart),
            self.total + other.total + other.columns * apart,
            self.columns + other.columns,
        )

    @property
    def mean(self) -> float:
        """The score gap of these columns."""
        return (self.best - self.total / self.columns).mean().item()


def side_by_side(left: Tiles, right: Tiles, name: str) -> Tiles:
    """Return tiles [Q, N + M] of [Q, N] and [Q, M].

    Example:
        ::

            >>> both = side_by_side(as_tiles(torch.ones(1, 2)), as_tiles(torch.zeros(1, 1)), 'both')
            >>> [tile.tolist() for _, tile in both.parts()]
            [[[1.0, 1.0, 0.0]]]
    """
    size = left.shape[1]

    def columns(part: slice) -> Tensor:
        tiles = []
        if part.start < size:
            tiles.append(left.columns(slice(part.start, min(part.stop, size))))
        if part.stop > size:
            tiles.append(right.columns(slice(max(part.start - size, 0), part.stop - size)))
        return torch.cat(tiles, dim=1)

    shape = (left.shape[0], size + right.shape[1])
    return Tiles(shape, columns, min(left.width, right.width), name)


@partial(arrays_too, mapped=True)
def inner_products(
    queries: Any,
    gallery: Any,
    *,
    entries: Optional[int] = None,
    device: Optional[str | torch.device] = None,
) -> Tiles:
    """Return tiles of the inner products of embeddings, computed in float32.

    Args:
        queries: Tensor or numpy array [Q, D], held as float32.
        gallery: Tensor or numpy array [N, D], may be memory-mapped: a tile reads only its rows.
        entries: scores a tile, at least one column; the default suits the device.
        device: where tiles are computed; default that of ``queries`` (CPU for numpy arrays).

    Returns:
        Tiles of float32 [Q, N].

    Example:
        ::

            >>> tiles = inner_products(torch.eye(3), torch.eye(3)[:2], entries=3)
            >>> [scores.tolist() for _, scores in tiles.parts()]
            [[[1.0], [0.0], [0.0]], [[0.0], [1.0], [0.0]]]

    Raises:
        ValueError: not two matrices of one dimension D.
    """
    if len(queries.shape) != 2 or len(gallery.shape) != 2 or queries.shape[1] != gallery.shape[1]:
        raise ValueError(
            f'queries {list(queries.shape)} and gallery {list(gallery.shape)} must be [Q, D] and '
            '[N, D]'
        )
    rows = _float32(queries, device)

    def columns(part: slice) -> Tensor:
        return product(rows, _float32(gallery[part], rows.device).t())

    shape = (len(queries), len(gallery))
    return Tiles.of(shape, columns, entries=entries, device=rows.device)


def top_of_rows(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k highest of each row, best first, and their columns, [Q, k] each.

    Of equal scores the lowest column comes first: :func:`torch.topk` takes any, another for
    another k.

    Args:
        scores: float [Q, N].
        k: 1 or more; all if there are fewer.

    Example:
        ::

            >>> top_of_rows(torch.tensor([[0.1, 0.5, 0.5, 0.5]]), 2)
            (tensor([[0.5000, 0.5000]]), tensor([[1, 2]]))
    """
    k = min(k, scores.shape[1])
    top = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    places = top.indices[:, :k].sort(dim=1).values
    if top.values.shape[1] > k:  # where the next score equals the last, topk has chosen
        tied = (top.values[:, k - 1] == top.values[:, k]).nonzero()[:, 0]
        if len(tied):
            ordered = scores[tied].sort(dim=1, descending=True, stable=True).indices[:, :k]
            places[tied] = ordered.sort(dim=1).values
    values = scores.gather(1, places)
    order = values.sort(dim=1, descending=True, stable=True)
    return order.values, places.gather(1, order.indices)


def refuse_empty(tiles: Tiles) -> None:
    """Raise ValueError if there are no rows (an empty bank) or no columns.

    Example:
        ::

            >>> refuse_empty(as_tiles(torch.ones(0, 3)))
            Traceback (most recent call last):
            ValueError: scores [0, 3] has no queries (rows)
    """
    for size, what in zip(tiles.shape, ('queries (rows)', 'gallery items (columns)')):
        if size == 0:
            raise ValueError(f'{tiles.name} {list(tiles.shape)} has no {what}')


def refuse_non_finite(scores: Tensor, *, name: str = 'scores', first_column: int = 0) -> None:
    """Raise ValueError with the row and column of the first score that is NaN or infinite.

    A sum tells in one fast pass whether a search is needed: it is finite only if all scores are.

    Args:
        scores: float [Q, N].
        name: name of the matrix in the message.
        first_column: position of the first of these columns in the whole matrix.

    Example:
        ::

            >>> refuse_non_finite(torch.tensor([[0.1, torch.inf]]), name='bank')
            Traceback (most recent call last):
            ValueError: bank[0, 1] is inf, expected finite scores
    """
    if scores.detach().sum().isfinite():
        return
    wrong = (~scores.isfinite()).nonzero()
    if not len(wrong):  # a sum of large finite numbers may overflow
        return
    row, column = wrong[0].tolist()
    raise ValueError(
        f'{name}[{row}, {first_column + column}] is {scores[row, column].item()}, expected '
        'finite scores'
    )


def _float32(x: Any, device: Optional[str | torch.device]) -> Tensor:
    if not isinstance(x, Tensor):
        x = torch.tensor(x, dtype=torch.float32)  # a copy: a memory map may be read-only
    return x.to(device=device, dtype=torch.float32)


def extent(tile: Tensor) -> Tensor:
    """Return the lowest and the highest score of a tile [Q, n], float [2]; NaN if any is NaN.

    Example:
        ::

            >>> extent(torch.tensor([[0.5, 0.1], [0.2, 0.4]]))
            tensor([0.1000, 0.5000])
    """
    return torch.stack([tile.amin(), tile.amax()])  # aminmax takes ten times as long


def _step(low: Tensor, high: Tensor) -> Tensor:
    return ((high - low) / 255).clamp_min(torch.finfo(low.dtype).tiny)


def column_blocks(tile: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield a tile [Q, n] a few columns at a time, which fit a CPU's second-level cache.

    Example:
        ::

            >>> [part for part, _ in column_blocks(torch.zeros(2**19, 3))]
            [slice(0, 2, None), slice(2, 3, None)]
    """
    width = tile.shape[1] if tile.device.type != 'cpu' else tile_width(tile.shape[0], BLOCK)
    for start in range(0, tile.shape[1], width):
        part = slice(start, min(start + width, tile.shape[1]))
        yield part, tile[:, part]


def tile_width(rows: int, entries: int = ENTRIES) -> int:
    """Return the number of columns of a tile with ``rows`` rows, at least one.

    Example:
        ::

            >>> tile_width(1000)
            4160
    """
    width = max(1, entries // max(1, rows))
    return width if width < ALIGNED else width // ALIGNED * ALIGNED
