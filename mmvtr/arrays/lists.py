"""Passes over the tiles of scores: the best of each row, and log sums."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import Tiles


def best(
    tiles: Tiles, k: int, added: Optional[Tensor] = None, gate: Optional[Tensor] = None
) -> tuple[Tensor, Tensor]:
    """The k highest of each row, and their columns.

    Args:
        tiles: of float [Q, N].
        k: 1 or more; all columns if there are fewer.
        added: float [N], to each column; None: nothing.
        gate: float [Q], by which what is added is multiplied; None: one.

    Returns:
        float [Q, k] with what is added, best first, and int64 [Q, k].
    """
    return tiles.best(k, lambda part, tile: _changed(tile, part, added, gate))


def log_sums_of(
    tiles: Tiles,
    temperature: float,
    added: Optional[Tensor] = None,
    gate: Optional[Tensor] = None,
) -> Tensor:
    """logsumexp of each row over a temperature, float64 [Q].

    Args:
        tiles, added, gate: of :func:`best`.
        temperature: positive.
    """
    total = None
    for part, tile in tiles.parts():
        sums = (_changed(tile, part, added, gate).double() / temperature).logsumexp(1)
        total = sums if total is None else torch.logaddexp(total, sums)
    return total


def _changed(tile: Tensor, part: slice, added: Optional[Tensor], gate: Optional[Tensor]) -> Tensor:
    if added is None:
        return tile
    return tile + added[part] if gate is None else tile + gate[:, None] * added[part]
