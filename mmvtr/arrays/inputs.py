"""Arrays as they are given: checked, and read as float32 rows a few at a time."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Optional

import numpy as np
import torch
from torch import Tensor

from mmvtr.functional.similarities.distinct import row_groups
from mmvtr.functional.similarities.tiles import ENTRIES, Tiles

#: What scores are: cosines of vectors of any length, or their inner products as they are.
Geometry = Literal['cosine', 'inner_product']
GEOMETRIES = ('cosine', 'inner_product')
#: Rows that are checked at a time.
ROWS = 2**14
#: How what is no array becomes one, by the module of its type.
CONVERSIONS = {
    'builtins': 'numpy.asarray({}, dtype="float32")',
    'pandas': '{}.to_numpy(dtype="float32")',
    'polars': '{}.to_numpy()',
    'pyarrow': 'numpy.stack({}.to_numpy(zero_copy_only=False))',
    'scipy': '{}.toarray()',
    'jax': 'numpy.asarray({})',
    'tensorflow': '{}.numpy()',
}


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Rows of one or more arrays, none of which is ever copied as a whole.

    Attributes:
        arrays: numpy or torch, float [N, D] each; may be memory-mapped.
        lengths: float32 [N] of each, by which rows are divided; ones of inner products.
    """

    arrays: tuple[Any, ...]
    lengths: tuple[Tensor, ...]

    @classmethod
    def of(cls, rows: Tensor) -> Vectors:
        """Return rows that are taken as they are, float32 [N, D]."""
        return cls((rows,), (torch.ones(len(rows)),))

    def __len__(self) -> int:
        return sum(len(x) for x in self.lengths)

    @property
    def width(self) -> int:
        return self.arrays[0].shape[1]

    def __add__(self, other: Vectors) -> Vectors:
        return Vectors((*self.arrays, *other.arrays), (*self.lengths, *other.lengths))

    def unit(self, part: slice | Tensor = slice(None)) -> Tensor:
        """Return some rows divided by their lengths, float32 [n, D]."""
        if len(self.arrays) == 1:
            return _divided(self.arrays[0], self.lengths[0], part)
        if isinstance(part, Tensor):
            return torch.cat([self.unit(slice(i, i + 1)) for i in part.tolist()])
        first, last, _ = part.indices(len(self))
        found, start = [], 0
        for array, lengths in zip(self.arrays, self.lengths):
            begin, end = max(first - start, 0), min(last - start, len(lengths))
            if begin < end:
                found.append(_divided(array, lengths, slice(begin, end)))
            start += len(lengths)
        return torch.cat(found) if found else torch.empty(0, self.width)


@dataclasses.dataclass(frozen=True)
class Bank:
    """Different queries seen before, and their own items where these are known.

    Attributes:
        texts: float32 [K, D], of equal rows the first.
        given: how many rows there were.
        items: float32 [M, D], likewise; None = not known.
        pairs: int64 [P, 2], different pairs of a text and an item; None = not known.
    """

    texts: Tensor
    given: int
    items: Optional[Tensor] = None
    pairs: Optional[Tensor] = None

    def to(self, device: Any) -> Bank:
        """Return the same on a device."""
        items = None if self.items is None else self.items.to(device)
        return dataclasses.replace(self, texts=self.texts.to(device), items=items)

    @property
    def said(self) -> str:
        """Return how many different texts there are."""
        count = f'{len(self.texts)} different bank texts'
        return count if self.given == len(self.texts) else f'{count} of {self.given}'


def check_geometry(geometry: str) -> None:
    """Raise ValueError unless it is one of :data:`GEOMETRIES`."""
    if geometry not in GEOMETRIES:
        raise ValueError(f'geometry must be one of {GEOMETRIES}, not {str(geometry)[:80]!r}')


def read_vectors(array: Any, name: str, geometry: Geometry = 'cosine') -> Vectors:
    """Return an array of vectors, checked.

    Args:
        array: numpy or torch, float or integer [N, D].
        name: what errors call it.
        geometry: of the scores; of cosines no row may be all zeros.

    Raises:
        TypeError: neither numpy nor torch (names the conversion).
        ValueError: no matrix, empty, no numbers; a row that is not finite or is all zeros (its
            number is said).
    """
    if not isinstance(array, (np.ndarray, Tensor)):
        kind = type(array)
        how = CONVERSIONS.get(kind.__module__.split('.')[0])
        hint = f': give {how.format(name.replace(" ", "_"))}' if how else ''
        raise TypeError(
            f'{name} must be a numpy array or a torch tensor, not {kind.__name__}{hint}'
        )
    if len(array.shape) != 2 or 0 in array.shape:
        raise ValueError(f'{name} {list(array.shape)} must be [rows, width], none of them 0')
    _refuse_other_types(array, name)
    lengths = []
    for start in range(0, len(array), ROWS):
        found = _float32(array, slice(start, start + ROWS)).double().norm(dim=1)
        zero = (found == 0) & (geometry == 'cosine')
        for wrong, what in ((~found.isfinite(), 'is not finite'), (zero, 'is all zeros')):
            if wrong.any():
                row = start + int(wrong.nonzero()[0])
                raise ValueError(f'{name}: row {row} {what}, so it has no direction')
        lengths.append(found.float() if geometry == 'cosine' else torch.ones(len(found)))
    return Vectors((array,), (torch.cat(lengths),))


def read_bank(bank: Any, width: int, geometry: Geometry = 'cosine') -> Bank:
    """Return a bank, checked: an array of queries, or a pair of these and their own items.

    Args:
        bank: float [B, D], or a tuple or list of two of them; the second may be None; or one that
            was read before.
        width: D.
        geometry: of the scores.

    Raises:
        TypeError, ValueError: as :func:`read_vectors`; items without queries, numbers that differ,
            another width.
    """
    if isinstance(bank, Bank):
        if bank.texts.shape[1] != width:
            raise ValueError(f'bank texts have width {bank.texts.shape[1]}, the videos {width}')
        return bank
    if isinstance(bank, list) and not any(isinstance(x, (np.ndarray, Tensor)) for x in bank):
        read_vectors(bank, 'bank texts')  # says what a list becomes
    if not isinstance(bank, (tuple, list)):
        bank = (bank, None)
    if len(bank) != 2:
        raise ValueError(f'a bank is its texts or (texts, videos), not {len(bank)} arrays')
    texts, videos = bank
    if texts is None:
        raise ValueError('the bank has videos only: it needs texts, queries seen before')
    rows, group = _different(texts, 'bank texts', width, geometry)
    if videos is None:
        return Bank(rows, len(group))
    items, item = _different(videos, 'bank videos', width, geometry)
    if len(item) != len(group):
        raise ValueError(
            f'the bank has {len(group)} texts and {len(item)} videos: row i of both is one pair'
        )
    pairs = torch.stack([group, item], dim=1).unique(dim=0)
    return Bank(rows, len(group), items, pairs)


def unpaired_bank(texts: Any, items: Any, width: int, geometry: Geometry = 'cosine') -> Bank:
    """Return queries and items seen before of which nobody knows who belongs to whom.

    Args:
        texts: float [K, D].
        items: float [M, D], or None.
        width, geometry: of :func:`read_bank`.

    Raises:
        TypeError, ValueError: as :func:`read_bank`.
    """
    rows, group = _different(texts, 'bank texts', width, geometry)
    seen = None if items is None else _different(items, 'bank videos', width, geometry)[0]
    return Bank(rows, len(group), seen)


def _different(array: Any, name: str, width: int, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """Different rows float32 [k, D], of equal ones the first, and the place of each row there."""
    given = read_vectors(array, name, geometry)
    check_width(given, width, name)
    rows = given.unit()
    group = row_groups(rows.cpu())
    return rows[_first(group).to(rows.device)], group


def check_width(vectors: Vectors, width: int, name: str) -> None:
    """See that vectors have the width of the others.

    Raises:
        ValueError: they do not.
    """
    if vectors.width != width:
        raise ValueError(f'{name} have width {vectors.width}, the videos {width}')


def read_ids(ids: Any, items: int) -> Optional[np.ndarray]:
    """Return the ids of a gallery as an array [N], None where none were given.

    Raises:
        ValueError: not one for each item, or one that is there twice.
    """
    if ids is None:
        return None
    if isinstance(ids, Tensor):
        ids = ids.cpu().numpy()
    if hasattr(ids, 'to_pylist'):  # pyarrow, whose scalars are equal to no str
        ids = ids.to_pylist()
    ids = list(ids)
    if len(ids) != items:
        raise ValueError(f'{len(ids)} ids for {items} videos: one each')
    if len(set(ids)) < items:
        seen: set[Any] = set()
        twice = next(one for one in ids if one in seen or seen.add(one))
        raise ValueError(f'the id {str(twice)[:80]!r} is there twice')
    if all(isinstance(one, (int, np.integer)) for one in ids):
        whole = np.array(ids)
        if whole.dtype.kind in 'iu':  # no floats, as numpy makes of 2**63 beside -1
            return whole
    named = np.empty(items, dtype=object)
    named[:] = ids
    return named


def score_tiles(queries: Tensor, gallery: Vectors, name: str = 'scores') -> Tiles:
    """Return tiles of the scores of all queries with all items, float32 [Q, N].

    A tile is bounded by its scores and by the vectors that it reads, 16 MiB of either.

    Args:
        queries: float32 [Q, D].
        gallery: N items.
        name: of the matrix, in errors.
    """
    widest = max(1, ENTRIES // max(1, *queries.shape))
    return Tiles(
        (len(queries), len(gallery)),
        lambda part: products(queries, gallery.unit(part)),
        widest,
        name,
    )


def products(queries: Tensor, items: Tensor) -> Tensor:
    """Return inner products on the queries' device, float32 [Q, N], also under autocast."""
    with torch.autocast(queries.device.type, enabled=False):
        return queries @ items.to(queries.device).t()


def _first(group: Tensor) -> Tensor:
    """Positions of the first row of each group, in order."""
    return torch.from_numpy(np.unique(group.numpy(), return_index=True)[1])


def _divided(array: Any, lengths: Tensor, rows: slice | Tensor) -> Tensor:
    return _float32(array, rows) / lengths[rows, None].to(_device(array))


def _device(array: Any) -> torch.device:
    return array.device if isinstance(array, Tensor) else torch.device('cpu')


def _refuse_other_types(array: Any, name: str) -> None:
    if isinstance(array, Tensor):
        numbers = not (array.is_complex() or array.dtype == torch.bool)
    else:
        numbers = array.dtype.kind in 'fiu'
    if not numbers:
        raise ValueError(f'{name} must hold real numbers, not {array.dtype}')


def _float32(array: Any, rows: Any) -> Tensor:
    if isinstance(array, Tensor):
        return array[rows].detach().float()
    if isinstance(rows, Tensor):
        rows = rows.numpy()
    return torch.from_numpy(np.array(array[rows], dtype=np.float32))
