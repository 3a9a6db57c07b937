"""A score matrix read in column tiles that are made on demand.

A bank of 16,384 queries against a million gallery items is 65 GB of scores and 2 GB of embeddings:
what needs one look at each score takes it from here, tile by tile, never the matrix.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.values import arrays_too, at_least_float32

__all__ = ['Tiles', 'as_tiles', 'inner_products', 'reach']

#: Scores in a tile: 16 MiB of float32 stay in a cache, and a matrix product is still at full speed.
ENTRIES = 2**22
#: The same on a GPU, which smaller tiles leave idle: on an H100 Sinkhorn of 16,384 x 27,763 scores
#: takes 252 ms with 2**22, 86 ms with 2**25 and 75 ms with 2**27.
GPU_ENTRIES = 2**25
#: Scores that :meth:`Tiles.kept` keeps: 768 MiB of float32.
KEPT = 192 * 2**20
#: Columns of a tile are a multiple of it: a product whose rows begin at odd addresses takes half
#: as long again.
ALIGNED = 64


class Tiles(NamedTuple):
    """A matrix [Q, N] of scores: rows are queries, columns are the gallery.

    Attributes:
        shape: (Q, N).
        columns: makes the float scores [Q, n] of a slice of n gallery columns, finite or not.
        width: gallery columns a tile; the last one may be narrower.
        name: what error messages call the matrix.
        stored: whether the scores lie in memory, so that nothing is gained by keeping them.
    """

    shape: tuple[int, int]
    columns: Callable[[slice], Tensor]
    width: int
    name: str = 'scores'
    stored: bool = False

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
        """Return tiles of ``entries`` scores each, or of a single column.

        Args:
            entries: default what suits ``device``, where the tiles are made.
        """
        own = ENTRIES if torch.device(device).type == 'cpu' else GPU_ENTRIES
        return cls(shape, columns, tile_width(shape[0], own if entries is None else entries), name)

    def parts(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield each tile's columns and its scores [Q, n], in one pass."""
        for start in range(0, self.shape[1], self.width):
            part = slice(start, min(start + self.width, self.shape[1]))
            yield part, self.columns(part)

    def per_column(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """``function`` of every tile, [Q, n] -> [n], in one vector [N]; differentiable.

        Written into place: small results that outlive their tiles leave holes in the heap in which
        the next tile finds no room, and memory grows by a tile a tile.
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

        Args:
            k: 1 or more.
            change: from a tile's columns and its scores to the float [Q, n] that are compared.

        Returns:
            float [Q, k], best first, and int64 [Q, k].
        """
        values, places = [], []
        for part, tile in self.parts():
            top = change(part, tile).topk(min(k, tile.shape[1]), dim=1)
            both = torch.cat([*values, top.values], 1)
            here = torch.cat([*places, top.indices + part.start], 1)
            kept = both.topk(min(k, both.shape[1]), dim=1)
            values, places = [kept.values], [here.gather(1, kept.indices)]
        return values[0], places[0]

    def kept(self, entries: Optional[int] = None) -> 'Tiles':
        """Return the same tiles; the first are kept when they are made, the others made anew.

        Args:
            entries: scores that are kept at most; default :data:`KEPT`.
        """
        if self.stored:
            return self
        most = KEPT if entries is None else entries
        first = min(most // max(1, self.shape[0] * self.width) * self.width, self.shape[1])
        if most >= self.shape[0] * self.shape[1]:
            first = self.shape[1]
        held: dict[int, Tensor] = {}

        def columns(part: slice) -> Tensor:
            start = part.start // self.width * self.width
            stop = min(start + self.width, self.shape[1])
            if part.stop > min(stop, first):
                return self.columns(part)
            if start not in held:
                held[start] = self.columns(slice(start, stop))
            return held[start][:, part.start - start : part.stop - start]

        return self._replace(columns=columns, stored=first == self.shape[1])

    def finite(self) -> 'Tiles':
        """Return the same tiles, each refused (ValueError) when made if a score is not finite."""

        def columns(part: slice) -> Tensor:
            tile = self.columns(part)
            refuse_non_finite(tile, name=self.name, first_column=part.start)
            return tile

        return self._replace(columns=columns)


@arrays_too
def as_tiles(scores: Tensor | Tiles, *, entries: Optional[int] = None) -> Tiles:
    """Return tiles of a stored matrix; tiles stay as they are.

    Args:
        scores: float [Q, N]; half precision is converted to float32 tile by tile.
        entries: scores a tile, at least one column; default what suits their device.

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
def reach(scores: Tensor | Tiles) -> float:
    """Return how far a query's best score lies above its mean, averaged over the queries.

    ``(scores.amax(1) - scores.mean(1)).mean()``: the unit in which temperatures carry over from
    scores of one model to those of another (docs/judgments.md).

    Args:
        scores: float [Q, N], or its tiles.

    Example:
        ::

            >>> round(reach(torch.tensor([[0.5, 0.1], [0.2, 0.4]])), 3)
            0.15
    """
    tiles = as_tiles(scores)
    # From a row's first score on: of equal scores the sums are 0 to the bit.
    first = tiles.columns(slice(0, 1)).clone()
    best, total = torch.full_like(first[:, 0], -torch.inf), 0.0
    for _, tile in tiles.parts():
        above = tile - first
        best = torch.maximum(best, above.amax(1))
        total = total + above.sum(1).double()
    return (best.double() - total / tiles.shape[1]).mean().item()


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
        gallery: Tensor or numpy array [N, D], may be memory-mapped: a tile reads its rows only.
        entries: scores a tile, at least one column; default what suits the device.
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
    held = _float32(queries, device)

    def columns(part: slice) -> Tensor:
        with torch.autocast(held.device.type, enabled=False):
            return held @ _float32(gallery[part], held.device).t()

    shape = (len(queries), len(gallery))
    return Tiles.of(shape, columns, entries=entries, device=held.device)


def refuse_empty(tiles: Tiles) -> None:
    """Raise ValueError where there are no rows (an empty bank) or no columns.

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

    The sum tells in one fast pass whether a closer look is needed: what is not finite reaches it.

    Args:
        scores: float [Q, N].
        name: what the message calls it.
        first_column: what the first of these columns is of the whole matrix.

    Example:
        ::

            >>> refuse_non_finite(torch.tensor([[0.1, torch.inf]]), name='bank')
            Traceback (most recent call last):
            ValueError: bank[0, 1] is inf, expected finite scores
    """
    if scores.detach().sum().isfinite():
        return
    wrong = (~scores.isfinite()).nonzero()
    if not len(wrong):  # a sum of large numbers may overflow
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


def tile_width(rows: int, entries: int = ENTRIES) -> int:
    """Return how many columns of so many rows a tile has, at least one.

    Example:
        ::

            >>> tile_width(1000)
            4160
    """
    width = max(1, entries // max(1, rows))
    return width if width < ALIGNED else width // ALIGNED * ALIGNED
