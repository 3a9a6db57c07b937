"""Duplicate rows of a matrix: query logs repeat the same queries."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmvtr.functional.values import arrays_too

__all__ = ['distinct_rows', 'row_groups']

#: Rows are equal if their root mean squared difference is at most this share of the rows' root mean
#: square: encoders that see a text in another batch change it by less.
STEP = 1e-3
#: Rows are compared if they fall into one cell of this many random directions, of this width in
#: root mean squares of a row's entries.
DIRECTIONS, CELL = 8, 0.03
#: Of fewer queries it is asked first whether one is near to a row of the bank, at most this share
#: of the rows' mean squares away; a hundred times what is equal, for rounding.
FEW, NEAR = 16, 1e-4
#: Rows read at a time.
ROWS = 2**14


@partial(arrays_too, mapped=True)
def row_groups(rows: Any) -> Tensor:
    """Return which rows are equal: the number of each row's group.

    Args:
        rows: float [K, ...], numpy or torch; rows are equal if their root mean squared difference
            is at most a thousandth of the root mean square of all entries.

    Returns:
        int64 [K], groups numbered in the order of their first rows.

    Example:
        ::

            >>> row_groups(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
            tensor([0, 1, 0])
    """
    return _groups(rows)


@partial(arrays_too, mapped=True)
def distinct_rows(rows: Any) -> Tensor:
    """Return the position of the first row of each group of equal rows.

    Args:
        rows: see :func:`row_groups`.

    Returns:
        int64 [U], increasing.

    Example:
        ::

            >>> distinct_rows(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
            tensor([0, 1])
    """
    groups = _groups(rows)
    before = torch.cat([groups.new_tensor([-1]), groups.cummax(0).values])[: len(groups)]
    return (groups > before).nonzero().flatten()


def places_in_groups(groups: Tensor) -> Tensor:
    """Return the place of each entry in its group, int64 [n], of numbers of groups in order.

    Example:
        ::

            >>> places_in_groups(torch.tensor([0, 0, 2, 2, 2]))
            tensor([0, 1, 0, 1, 2])
    """
    counts = groups.bincount()
    return torch.arange(len(groups), device=groups.device) - (counts.cumsum(0) - counts)[groups]


def asked_before(bank: Tensor, queries: Tensor, what: str) -> str:
    """Return a note if most queries are in their bank (transductive), else ``''``.

    Args:
        bank: float [K, D], queries seen before, or their scores with the items.
        queries: float [Q, D], the queries asked, in the same form.
        what: name of the queries, such as ``'texts that ask'``.

    Example:
        ::

            >>> asked_before(torch.eye(3), torch.eye(3)[:2], 'test texts')
            'transductive: 2 of the 2 test texts are in the bank'
    """
    if bank.shape[1:] != queries.shape[1:]:
        return ''
    if len(queries) < FEW and not _near(bank.float().flatten(1), queries.float().flatten(1)):
        return ''
    groups = row_groups(torch.cat([bank.float().cpu(), queries.float().cpu()]))
    shared = int(torch.isin(groups[len(bank) :], groups[: len(bank)]).sum())
    if shared <= len(queries) / 2:
        return ''
    return f'transductive: {shared} of the {len(queries)} {what} are in the bank'


def _near(bank: Tensor, queries: Tensor) -> bool:
    """Return whether a bank's row may equal a query: a fast test, which rarely errs."""
    squares = [x.square().sum(1) for x in (bank, queries)]
    apart = squares[0] + squares[1][:, None] - 2 * queries @ bank.to(queries.device).t()
    size = squares[0].mean() + squares[1].mean()
    return bool((apart <= NEAR * size).any())


def _groups(rows: Any) -> Tensor:
    projected, size = _projected(rows)
    weights = np.random.default_rng(1).integers(-(2**62), 2**62, DIRECTIONS)
    places = np.arange(len(rows))
    leader = places.copy()
    # Equal rows on two sides of a cell border share a cell of the shifted grid; narrow cells find
    # equal rows in dense regions.
    for cell, shift in ((CELL, 0.0), (CELL, 0.5), (CELL / 100, 0.0), (CELL / 100, 0.5)):
        cells = np.floor(projected / (cell * size) + shift).astype(np.int64)
        _, first, group = np.unique(
            (cells * weights).sum(1), return_index=True, return_inverse=True
        )
        like = first[group]
        later = np.flatnonzero(like < places)
        equal = later[_equal(rows, later, like[later], STEP * size)]
        leader[equal] = np.minimum(leader[equal], like[equal])
    while (leader[leader] != leader).any():
        leader = leader[leader]
    return torch.from_numpy(np.unique(leader, return_inverse=True)[1].reshape(-1))


def _projected(rows: Any) -> tuple[np.ndarray, float]:
    """Return rows along random directions, float64 [K, DIRECTIONS], and the entries' RMS."""
    width = math.prod(rows.shape[1:])
    directions = np.random.default_rng(0).normal(size=(width, DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0) + (width == 0)
    squares, projected = 0.0, []
    for start in range(0, len(rows), ROWS):
        part = _read(rows, slice(start, start + ROWS))
        squares += float(np.square(part, dtype=np.float64).sum())
        projected.append(part @ directions.astype(np.float32))
    size = (squares / max(1, len(rows) * width)) ** 0.5 or 1.0
    return np.concatenate(projected or [np.zeros((0, DIRECTIONS))]).astype(np.float64), size


def _equal(rows: Any, these: np.ndarray, those: np.ndarray, most: float) -> np.ndarray:
    """Return whether ``these`` and ``those`` rows are equal in pairs, bool [n]."""
    equal = np.zeros(len(these), dtype=bool)
    for start in range(0, len(these), ROWS):
        part = slice(start, start + ROWS)
        apart = _read(rows, these[part]) - _read(rows, those[part])
        equal[part] = np.square(apart).mean(1) <= most**2
    return equal


def _read(rows: Any, which: Any) -> np.ndarray:
    """Return some of the rows, float32 [n, D]."""
    if isinstance(rows, Tensor):
        which = torch.from_numpy(which) if isinstance(which, np.ndarray) else which
        part = rows.detach()[which].float().cpu().numpy()
    else:
        part = np.asarray(rows[which], dtype=np.float32)
    return part.reshape(len(part), -1)
