"""Arrays as they are given: checked, and read as unit vectors a few rows at a time."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import ENTRIES, Tiles

#: Rows that are checked at a time.
ROWS = 2**14


class Vectors(NamedTuple):
    """Rows of an array, which is never copied as a whole.

    Attributes:
        array: numpy or torch, float [N, D]; may be memory-mapped.
        lengths: float32 [N], positive.
    """

    array: Any
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.array)

    def unit(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """Some rows divided by their lengths, float32 [n, D]."""
        return _float32(self.array, rows) / self.lengths[rows, None]


class Bank(NamedTuple):
    """Queries seen before, and their own items where these are known.

    Attributes:
        queries: B of them.
        own: item i belongs to query i; None = not known.
    """

    queries: Vectors
    own: Optional[Vectors] = None


def read_vectors(array: Any, name: str) -> Vectors:
    """Check an array of vectors.

    Args:
        array: numpy or torch, float or integer [N, D].
        name: what errors call it.

    Raises:
        TypeError: neither numpy nor torch.
        ValueError: no matrix, empty, no numbers; a row that is not finite or is all zeros (its
            number is said).
    """
    if not isinstance(array, (np.ndarray, Tensor)):
        raise TypeError(
            f'{name} must be a numpy array or a torch tensor, not {type(array).__name__}'
        )
    if len(array.shape) != 2 or 0 in array.shape:
        raise ValueError(f'{name} {list(array.shape)} must be [rows, width], none of them 0')
    _refuse_other_types(array, name)
    parts = []
    for start in range(0, len(array), ROWS):
        lengths = _float32(array, slice(start, start + ROWS)).norm(dim=1)
        for wrong, what in ((~lengths.isfinite(), 'is not finite'), (lengths == 0, 'is all zeros')):
            if wrong.any():
                row = start + int(wrong.nonzero()[0])
                raise ValueError(f'{name}: row {row} {what}, so it has no direction')
        parts.append(lengths)
    return Vectors(array, torch.cat(parts))


def read_bank(bank: Any, width: int) -> Bank:
    """Check a bank: an array of queries, or a pair of these and their own items.

    Args:
        bank: float [B, D], or a tuple or list of two of them; the second may be None.
        width: D.

    Raises:
        TypeError, ValueError: as :func:`read_vectors`; items without queries, numbers that differ,
            another width.
    """
    if not isinstance(bank, (tuple, list)):
        bank = (bank, None)
    if len(bank) != 2:
        raise ValueError(f'a bank is its texts or (texts, videos), not {len(bank)} arrays')
    texts, videos = bank
    if texts is None:
        raise ValueError('the bank has videos only: it needs texts, queries seen before')
    queries = read_vectors(texts, 'bank texts')
    check_width(queries, width, 'bank texts')
    if videos is None:
        return Bank(queries)
    own = read_vectors(videos, 'bank videos')
    check_width(own, width, 'bank videos')
    if len(own) != len(queries):
        raise ValueError(
            f'the bank has {len(queries)} texts and {len(own)} videos: row i of both is one pair'
        )
    return Bank(queries, own)


def check_width(vectors: Vectors, width: int, name: str) -> None:
    """See that vectors have the width of the others.

    Raises:
        ValueError: they do not.
    """
    if vectors.array.shape[1] != width:
        raise ValueError(f'{name} have width {vectors.array.shape[1]}, the texts {width}')


def read_ids(ids: Any, items: int) -> Optional[np.ndarray]:
    """Ids of a gallery as an array [N], None where none were given.

    Raises:
        ValueError: not one for each item, or one that is there twice.
    """
    if ids is None:
        return None
    if isinstance(ids, Tensor):
        ids = ids.cpu().numpy()
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


def cosines(queries: Vectors, gallery: Vectors, name: str = 'scores') -> Tiles:
    """Tiles of the cosines of all queries with all items, float32 [Q, N]."""
    held = queries.unit()
    return Tiles.of(
        (len(queries), len(gallery)),
        lambda part: products(held, gallery.unit(part)),
        name=name,
        entries=ENTRIES,
    )


def products(queries: Tensor, items: Tensor) -> Tensor:
    """Inner products on the queries' device, float32 [Q, N], also under autocast."""
    with torch.autocast(queries.device.type, enabled=False):
        return queries @ items.to(queries.device).t()


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
