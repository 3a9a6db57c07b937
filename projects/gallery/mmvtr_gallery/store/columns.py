"""Columns of items in memory as arrays, so that conditions are evaluated quickly."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr_gallery.store.filters import Condition


class _Coded(NamedTuple):
    """Values of a column as integer codes; None is 0."""

    known: dict[Any, int]
    codes: np.ndarray  # int32 [N]


class Columns:
    """Columns of N items that do not change; each is converted once, on first use.

    Args:
        lists: N values for each column name.
    """

    def __init__(self, lists: Mapping[str, Sequence[Any]]) -> None:
        self._lists = lists
        self._coded: dict[str, _Coded] = {}
        self._numbers: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._refusal: tuple[Optional[Condition], Optional[np.ndarray]] = None, None

    def mask(self, conditions: Sequence[Condition]) -> np.ndarray:
        """Return which items meet all of one or more conditions, bool [N]."""
        masks = [self._refused(x) if x.refused else self._fits(x) for x in conditions]
        return masks[0] if len(masks) == 1 else np.logical_and.reduce(masks)

    def known(self, column: str, values: Sequence[Any]) -> set[Any]:
        """Return which of the values occur in a column."""
        return {value for value in values if value in self._code(column).known}

    def rows(self, column: str, values: Sequence[Any]) -> list[int]:
        """Return the rows of the items that have one of the values."""
        return np.flatnonzero(self._fits(Condition(column, values=list(values)))).tolist()

    def _refused(self, condition: Condition) -> np.ndarray:
        """Return which items a search may return, bool [N]; cached, as all searches ask it."""
        last, mask = self._refusal
        if last != condition:
            mask = self._fits(condition)
            self._refusal = condition, mask
        return mask

    def _fits(self, condition: Condition) -> np.ndarray:
        column, values, least, most, refused = condition
        if values is not None:
            known, codes = self._code(column)
            meant = np.zeros(len(known), dtype=bool)
            meant[[known[value] for value in values if value in known]] = True
            return (~meant if refused else meant)[codes]
        numbers, fits = self._number(column)
        if least is not None:
            fits = fits & (numbers >= least)
        return fits if most is None else fits & (numbers <= most)

    def _code(self, column: str) -> _Coded:
        if column not in self._coded:
            known: dict[Any, int] = {None: 0}
            values = self._lists[column]
            codes = (known.setdefault(value, len(known)) for value in values)
            self._coded[column] = _Coded(known, np.fromiter(codes, np.int32, len(values)))
        return self._coded[column]

    def _number(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Return a column as numbers, int64 or float64 [N], and where it has a value, bool [N]."""
        if column not in self._numbers:
            values = self._lists[column]
            there = np.array([value is not None for value in values], dtype=bool)
            self._numbers[column] = np.array([value or 0 for value in values]), there
        return self._numbers[column]
