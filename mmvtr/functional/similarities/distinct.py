"""Rows of a matrix that are there more than once: a query log asks the same again and again."""

from __future__ import annotations

import math
from functools import partial
from hashlib import blake2b
from typing import Any, Iterator

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too

__all__ = ['distinct_rows', 'row_groups']

#: Entries count as equal within this share of their root mean square: encoders that see a text in
#: another batch move it by less.
STEP = 1e-3
#: Rows read at a time.
ROWS = 2**14


@partial(arrays_too, mapped=True)
def row_groups(rows: Any) -> Tensor:
    """Return which rows are equal: the number of each row's group.

    Args:
        rows: float [K, ...], numpy or torch; entries count as equal within a thousandth of the
            root mean square of all of them.

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
    """Return the positions of the first of each group of equal rows.

    Args:
        rows: as :func:`row_groups`.

    Returns:
        int64 [U], rising.

    Example:
        ::

            >>> distinct_rows(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
            tensor([0, 1])
    """
    groups = _groups(rows)
    before = torch.cat([groups.new_tensor([-1]), groups.cummax(0).values])[: len(groups)]
    return (groups > before).nonzero().flatten()


def _groups(rows: Any) -> Tensor:
    squares = sum(float(part.square().sum(dtype=torch.float64)) for part in _parts(rows))
    size = max(1, math.prod(rows.shape))
    step = STEP * (squares / size) ** 0.5 or 1.0
    number: dict[bytes, int] = {}
    found = [
        number.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), len(number))
        for part in _parts(rows)
        for row in (part.double() / step).round().long().numpy()
    ]
    return torch.tensor(found, dtype=torch.int64)


def _parts(rows: Any) -> Iterator[Tensor]:
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS]
        if not isinstance(part, Tensor):
            part = torch.tensor(part)
        yield part.detach().float().flatten(1).cpu()
