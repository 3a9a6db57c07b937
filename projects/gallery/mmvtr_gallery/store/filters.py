"""Filters of a search: conditions on columns.

A filter maps columns to the wanted values: a value, a list of values, or bounds
``{'min': x, 'max': y}``, both inclusive, of which one may be missing.  All conditions must hold; an
item without a value in the column is not found.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from mmvtr.cli.values import read
from mmvtr_gallery.store.items import COLUMNS, TYPES, is_text, shown

#: Maximal number of values of one condition.
MOST_VALUES = 10_000


class Condition(NamedTuple):
    """A condition on one column.

    Attributes:
        column: the column's name.
        values: the allowed values, or None if there are bounds.
        least, most: bounds, None if there is none.
        refused: whether ``values`` are excluded instead of allowed.
    """

    column: str
    values: Optional[list[Any]] = None
    least: Optional[float] = None
    most: Optional[float] = None
    refused: bool = False


def as_typed(
    written: Optional[Sequence[tuple[str, str]]], metadata: Mapping[str, str]
) -> dict[str, Any]:
    """Return the filter given as ``COLUMN=VALUE`` words, with values of the columns' types.

    Args:
        written: columns and values as text; a repeated column, or a list of numbers, means any of
            these values.
        metadata: types of the store's metadata columns.

    Raises:
        ValueError: an unknown column, or a value of another type than the column's.
    """
    types, found = {**COLUMNS, **metadata}, {}
    for name, text in written or ():
        kind = TYPES[types.get(name, 'str')]
        try:
            value = read(text, kind if kind is str else Union[kind, list[kind]])
        except ValueError:
            value = text
        found.setdefault(name, []).extend(value if isinstance(value, list) else [value])
    parsed(found, metadata)  # refuses invalid conditions
    return found


def parsed(given: Optional[Mapping[str, Any]], metadata: Mapping[str, str]) -> list[Condition]:
    """Return the conditions of a filter.

    Args:
        given: the user's filter; None or empty: no condition.
        metadata: types of the store's metadata columns.

    Raises:
        ValueError: not a mapping, an unknown column, a value of another type than the column's,
            bounds for a column of strings or booleans, no value at all.
    """
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise ValueError(f'filter: values by column expected, got {shown(given)}')
    types = {**COLUMNS, **metadata}
    return [_condition(name, wanted, types) for name, wanted in given.items()]


def _condition(name: Any, wanted: Any, types: Mapping[str, str]) -> Condition:
    if name not in types:
        raise ValueError(f'filter: no column {shown(name)}; there are {", ".join(types)}'[:480])
    kind = types[name]
    if isinstance(wanted, Mapping):
        if not wanted or set(wanted) - {'min', 'max'} or kind not in ('int', 'float'):
            raise ValueError(
                f'filter: {name} is of type {kind}; bounds are min and max of a number, got '
                f'{shown(wanted)}'
            )
        bounds = {key: _value(name, value, kind) for key, value in wanted.items()}
        return Condition(name, least=bounds.get('min'), most=bounds.get('max'))
    values = list(wanted) if isinstance(wanted, (list, tuple, set)) else [wanted]
    if not 1 <= len(values) <= MOST_VALUES:
        raise ValueError(f'filter: {name} has {len(values)} values, expected 1 to {MOST_VALUES}')
    return Condition(name, values=[_value(name, value, kind) for value in values])


def _value(name: str, value: Any, kind: str) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if kind == 'float' and type(value) is int and abs(value) < 2**1023:
        value = float(value)
    good = type(value) is TYPES[kind]
    if good and kind == 'float':
        good = math.isfinite(value)
    if good and kind == 'int':
        good = -(2**63) <= value < 2**63
    if good and kind == 'str':
        good = is_text(value)
    if not good:
        raise ValueError(f'filter: {name} is of type {kind}, got {shown(value)}')
    return value
