"""Items and hits of a store, and validation of what users pass."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.inputs import Geometry, in_order, why_unread
from mmvtr.functional.values import refuse_unreadable

#: Columns that every item has, with their types; metadata are further columns.
COLUMNS = dict(id='str', path='str', start='float', end='float', sigma='float', added='float')
#: Names that metadata columns cannot have: those above, and internal ones of the engines.
RESERVED = {*COLUMNS, 'bias', 'vector', 'number', 'norm', 'text'}
#: Types of metadata values.
TYPES = dict(bool=bool, int=int, float=float, str=str)
#: Maximal length of an id, and of a string, in characters.
LONGEST_ID, LONGEST_TEXT = 1024, 65536
#: What a store ranks by, given one vector per item.
GEOMETRIES = ('cosine', 'inner_product')
#: A norm that differs from 1 by less than this is taken as 1.
NEAR = 1e-6
#: Unicode categories that an id cannot contain, besides marks that change the writing direction.
_HIDDEN = ('Cc', 'Cs', 'Zl', 'Zp')
_DIRECTIONS = set('\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069')


class Item(NamedTuple):
    """The stored data of an item.

    Attributes:
        id: its unique name.
        path: its file, if known.
        start, end: seconds, for an item that is a part of its file.
        sigma: its uncertainty, for models that have one.
        added: when it was added, in seconds since 1970.
        bias: added to its scores; 0 in a store without a Debiaser.
        metadata: further columns by name; None for a missing value.
        vector: float32 [D], if requested.
    """

    id: str
    path: Optional[str]
    start: Optional[float]
    end: Optional[float]
    sigma: Optional[float]
    added: float
    bias: float
    metadata: dict[str, Any]
    vector: Optional[np.ndarray] = None


class Hit(NamedTuple):
    """A found item.

    Attributes:
        score: the ranking score: ``raw``, plus the bias if requested.
        raw: cosine of query and item, or their inner product, by the store's geometry.
        item: without its vector.
    """

    score: float
    raw: float
    item: Item


class KnownIds(ValueError):
    """Ids that were to be added are in the store already."""


class UnknownIds(ValueError):
    """Requested ids are not in the store."""


class Rows(NamedTuple):
    """N validated items to add, as columns.

    Attributes:
        ids: N new ids.
        vectors: float32 [N, D].
        columns: lists of N values for every column of :data:`COLUMNS` except the id, and metadata.
        types: types of the metadata, by name, without columns in which all values are None.
    """

    ids: list[str]
    vectors: np.ndarray
    columns: dict[str, list]
    types: dict[str, str]


def shown(value: Any) -> str:
    """Return the beginning of a value's repr, for an error message."""
    try:
        return repr(value)[:80]
    except ValueError:  # an int of thousands of digits
        return f'a {type(value).__name__}'


def is_text(value: str) -> bool:
    """Return whether a string can be encoded as UTF-8, that is, has no lone surrogates."""
    try:
        return value.isascii() or bool(value.encode()) or not value
    except UnicodeEncodeError:
        return False


def checked_vectors(vectors: Union[Tensor, np.ndarray], dim: int, *, what: str) -> np.ndarray:
    """Return a user's vectors as float32 [N, dim].

    Raises:
        ValueError: another shape or type, or an entry that is not finite (names the row).
    """
    refuse_unreadable(vectors, what)
    given = vectors
    if isinstance(vectors, Tensor):
        vectors = vectors.detach().to('cpu', torch.float32).numpy()
    if not isinstance(vectors, np.ndarray) or vectors.dtype.kind not in 'fiu':
        raise ValueError(
            f'{what}: a torch or numpy array of numbers [N, {dim}] expected, got {shown(vectors)}'
        )
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise ValueError(
            f'{what}: the store holds vectors [N, {dim}], not {list(vectors.shape)}: they are of '
            'another model, or one vector without its first axis'
        )
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    wrong = np.flatnonzero(~(lengths <= np.finfo(np.float32).max))
    if len(wrong):
        row = wrong[0]
        raise ValueError(f'{what}: vector {row} {why_unread(given[row], "cosine")}')
    return vectors


def check_geometry(geometry: str) -> None:
    """Raise ValueError unless the geometry is known."""
    if geometry not in GEOMETRIES:
        raise ValueError(f'geometry must be one of {GEOMETRIES}, not {str(geometry)[:80]!r}')


def in_geometry(vectors: np.ndarray, geometry: Geometry, *, what: str) -> np.ndarray:
    """Return vectors as a store keeps them, float32 [N, D]: at length 1 for cosines, else as is.

    Rows that have length 1 up to rounding are not changed.

    Raises:
        ValueError: for cosines, a row of zeros (names it).
    """
    if geometry == 'inner_product':
        return vectors
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True).astype(np.float64)
    if not largest.all():
        row = int((largest == 0).nonzero()[0][0])
        raise ValueError(f'{what}: vector {row} is all zeros, so it has no direction')
    scaled = vectors / largest  # else tiny entries would underflow when squared
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    near = np.abs(length * largest - 1) < NEAR
    return np.where(near, vectors, scaled / length).astype(np.float32)


def checked_ids(ids: Sequence[str]) -> list[str]:
    """Return ids as a list, checked to be distinct strings.

    Raises:
        ValueError: there are none, or one is no string, is empty, too long or occurs twice.
    """
    if isinstance(ids, str):
        raise ValueError(f'ids: a list of strings expected, not the string {shown(ids)}')
    ids = list(ids)
    if not ids:
        raise ValueError('ids: at least one expected')
    for row, name in enumerate(ids):
        if not isinstance(name, str) or not name or len(name) > LONGEST_ID:
            raise ValueError(
                f'ids: item {row} is {shown(name)}, expected a string of 1 to {LONGEST_ID} '
                'characters'
            )
        hidden = next(filter(_hidden, name), None)
        if hidden is not None:
            raise ValueError(
                f'ids: item {row} is {shown(name)}: the character {hidden!a} in it cannot be seen, '
                'or is none; name the item without it'
            )
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise ValueError(f'given twice: {_those(twice)}')
    return ids


def _hidden(character: str) -> bool:
    """Return whether a character is a control character, line end, surrogate or direction mark."""
    return unicodedata.category(character) in _HIDDEN or character in _DIRECTIONS


def is_column(name: Any) -> bool:
    """Return whether a metadata column may have this name."""
    word = r'[A-Za-z]\w{0,63}'
    return (
        isinstance(name, str) and bool(re.fullmatch(word, name, re.ASCII)) and name not in RESERVED
    )


def check_spans(starts: Sequence[Optional[float]], ends: Sequence[Optional[float]]) -> None:
    """Raise ValueError unless all items start at 0 or later, and before they end.

    Raises:
        ValueError: an item does not (names the row).
    """
    for row, (start, end) in enumerate(zip(starts, ends)):
        late = start is not None and end is not None and start >= end
        if late or min(start or 0, end or 0) < 0:
            raise ValueError(
                f'item {row} goes from {start} to {end} s: expected a start from 0 on that is '
                'before the end'
            )


def refuse_known(known: Sequence[str]) -> None:
    """Raise KnownIds if ids that were to be new are in the store."""
    if known:
        raise KnownIds(f'the gallery has {_those(known)} already')


def refuse_unknown(unknown: Sequence[str]) -> None:
    """Raise UnknownIds if ids are missing from the store."""
    if unknown:
        raise UnknownIds(f'the gallery has no {_those(unknown)}')


def checked_columns(
    count: int,
    given: Mapping[str, Optional[Sequence[Any]]],
    metadata: Optional[Mapping[str, Sequence[Any]]],
    known: Mapping[str, str],
) -> tuple[dict[str, list], dict[str, str]]:
    """Return columns of N values, and the types of the metadata among them.

    Args:
        count: N.
        given: columns of :data:`COLUMNS`; None if not given.
        metadata: further columns.
        known: types of the metadata columns that the store has.

    Raises:
        ValueError: a column of another length, a value of another type (names the row), a name that
            is reserved or no identifier.
    """
    columns = {
        name: _column(name, values, count, COLUMNS[name])[0] for name, values in given.items()
    }
    types = {}
    for name, values in (metadata or {}).items():
        if not isinstance(name, str) or not re.fullmatch(r'[A-Za-z]\w{0,63}', name, re.ASCII):
            raise ValueError(
                f'metadata: {shown(name)} names a column, expected a letter and up to 63 letters, '
                'digits or underscores'
            )
        if name in RESERVED:
            raise ValueError(f'metadata: {name!r} is a name that the store itself uses')
        columns[name], kind = _column(name, values, count, known.get(name))
        if kind is not None:
            types[name] = kind
    return columns, types


def norms_of(vectors: np.ndarray, before: Optional[Sequence[float]]) -> list[float]:
    """Return the smallest and largest norm of float32 [N, D] and of the norms before."""
    norms = np.linalg.norm(vectors, axis=1).tolist() + list(before or [])
    return [min(norms), max(norms)]


def said_of_lengths(norms: Optional[Sequence[float]]) -> Optional[str]:
    """Return a note if an older store without a geometry has different norms; else None."""
    if norms is None or norms[0] > 0.999 and norms[1] < 1.001:
        return None
    return (
        'it was made before stores noted their geometry, so it ranks by inner products of vectors '
        f'of lengths from {norms[0]:.3g} to {norms[1]:.3g}; mmvtr.retrieve ranks by cosines: '
        "export it again, or make it with geometry='inner_product' if that is meant"
    )


def refuse_several_norms(norms: Sequence[float], store: Any) -> None:
    """Raise ValueError if norms differ, as L2 and inner product then rank differently."""
    if norms[1] - norms[0] > 1e-4 * norms[1]:
        raise ValueError(
            'an index by L2 ranks like inner products only if all vectors have the same norm, but '
            f'norms in {store} go from {norms[0]:.4g} to {norms[1]:.4g}: search it without an index'
        )


def _column(
    name: str, values: Optional[Sequence[Any]], count: int, kind: Optional[str]
) -> tuple[list, Optional[str]]:
    if values is None:
        return [None] * count, kind
    values = in_order(values, name)
    if len(values) != count:
        raise ValueError(f'{name}: {count} values expected, one per item, got {len(values)}')
    plain = [x.item() if isinstance(x, (np.generic, Tensor)) else x for x in values]
    kind = kind or _kind(plain)
    return [_fits(name, row, value, kind) for row, value in enumerate(plain)], kind


def _kind(values: Sequence[Any]) -> Optional[str]:
    """Return the type of a new column: its first value's, or float for mixed ints and floats."""
    kinds = [type(value).__name__ for value in values if value is not None]
    return 'float' if set(kinds) == {'int', 'float'} else next(iter(kinds), None)


def _fits(name: str, row: int, value: Any, kind: Optional[str]) -> Any:
    if value is None:
        return None
    expected = TYPES.get(kind)
    if kind == 'float' and type(value) is int:
        value = float(value) if abs(value) < 2**53 else value
    wrong = expected is None or type(value) is not expected
    if not wrong and kind == 'float':
        wrong = not math.isfinite(value)
    elif not wrong and kind == 'int':
        wrong = not -(2**63) <= value < 2**63
    elif not wrong and kind == 'str':
        wrong = len(value) > LONGEST_TEXT or not is_text(value)
    if wrong:
        allowed = kind if expected else f'one of {", ".join(TYPES)}'
        allowed = f'str of up to {LONGEST_TEXT} whole characters' if kind == 'str' else allowed
        raise ValueError(f'{name}: item {row} is {shown(value)}, expected {allowed} or None')
    return value


def _those(names: Sequence[str]) -> str:
    """Return the names of items for a message: ``item 'a'``, ``items 'a', 'b' and 9 more``."""
    few = ', '.join(repr(x if len(x) <= 60 else f'{x[:57]}...') for x in names[:5])
    more = f' and {len(names) - 5} more' if len(names) > 5 else ''
    return f'item{"s" * (len(names) > 1)} {few}{more}'
