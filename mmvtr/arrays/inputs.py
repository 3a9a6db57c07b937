"""Input arrays: checked, and read as float32 rows a few at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from typing import Any, Literal, Optional

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from mmvtr.arrays.sources import is_source, read_rows
from mmvtr.arrays.tokens import SIDES, late_pairs, late_products, read_mask
from mmvtr.arrays.vectors import Part, Vectors, float32, writable
from mmvtr.functional.similarities.distinct import row_groups
from mmvtr.functional.similarities.tiles import ENTRIES, GPU_ENTRIES, Tiles, tile_width
from mmvtr.functional.values import CONVERSIONS, product, refuse_unreadable

#: Scores: cosines of vectors of any length, or inner products of vectors as given; for
#: :class:`.Tokens` sums of best cosines over the query's tokens, the item's tokens, or both.
Geometry = Literal['cosine', 'inner_product', 'maxsim', 'maxsim_of_items', 'token_wise']
GEOMETRIES = ('cosine', 'inner_product', *SIDES)
#: Numbers checked at a time: their float64 copies fit into memory that is allocated already.
CHECKED = 2**20
#: Lengths of rows, least and largest: of cosines, which divide by it (below, entries have lost
#: digits), and of inner products, whose sums must stay in float32, too; these may be 0.
LENGTHS_READ = ((torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max), (1e-15, 1e15))
#: Floats in a cache line: a product with unaligned rows takes half as long again.
LINE = 16
#: Library of another type -> how to convert it to a matrix of vectors.
MATRICES = {
    **CONVERSIONS,
    'builtins': 'numpy.asarray({}, dtype="float32")',
    'pandas': '{}.to_numpy(dtype="float32")',
    'pyarrow': 'numpy.stack({}.to_numpy(zero_copy_only=False))',
}


@dataclasses.dataclass(frozen=True)
class Bank:
    """Different queries seen before, and their own items if these are known.

    Attributes:
        texts: float32 [K, D], or [K, L, D + 1] for tokens; equal rows are kept once.
        given: number of rows before equal ones were dropped.
        items: float32 [M, D], different items; None = not known.
        pairs: int64 [P, 2], different pairs of a text and an item; None = not known.
        geometry: of the scores.
        counts: float32 [K], how often each text was given, with each of its items; None = once.
    """

    texts: Tensor
    given: int
    items: Optional[Tensor] = None
    pairs: Optional[Tensor] = None
    geometry: Geometry = 'cosine'
    counts: Optional[Tensor] = None

    def to(self, device: Any) -> Bank:
        """Return the bank on a device."""
        items = None if self.items is None else self.items.to(device)
        return dataclasses.replace(self, texts=self.texts.to(device), items=items)

    @property
    def width(self) -> int:
        """Of the vectors that the texts were made from, D."""
        return self.texts.shape[-1] - (self.geometry in SIDES)

    @property
    def weights(self) -> Optional[Tensor]:
        """Weights of the texts for a transform that takes them, float32 [K] of sum one; None = all
        alike.  A text that a log holds n times weighs 1 / n: what is asked for often is to be
        found often, and its items are not pushed down for it (docs/arrays.md)."""
        if self.counts is None or (self.counts == self.counts[0]).all():
            return None
        weights = 1 / self.counts.double()
        return (weights / weights.sum()).float()

    @property
    def said(self) -> str:
        """The number of different texts, in words."""
        count = f'{len(self.texts)} different bank texts'
        return count if self.given == len(self.texts) else f'{count} of {self.given}'


def check_geometry(geometry: str) -> None:
    """Raise ValueError unless it is one of :data:`GEOMETRIES`."""
    if geometry not in GEOMETRIES:
        raise ValueError(f'geometry must be one of {GEOMETRIES}, not {str(geometry)[:80]!r}')


def read_vectors(array: Any, name: str, geometry: Geometry = 'cosine') -> Vectors:
    """Return an array of vectors after checking it.

    Args:
        array: numpy or torch, float or integer [N, D]; :class:`.Tokens` for token-wise geometries.
        name: what errors call it.
        geometry: of the scores; for cosines no row may be all zeros.

    Raises:
        TypeError: neither numpy nor torch (the message names the conversion).
        ValueError: not a matrix, empty, not numbers; a row that is not finite, is all zeros, or has
            a length that float32 cannot hold (the message gives its number).
    """
    weights = None
    if geometry in SIDES:
        mask, weights = read_mask(array, name, geometry)
        array = array.vectors
    refuse_unreadable(array, name)
    if getattr(getattr(array, 'dtype', None), 'name', None) == 'bfloat16':  # of ml_dtypes
        array = torch.from_numpy(writable(array.view(np.int16))).view(torch.bfloat16)
    elif isinstance(array, np.ndarray):
        array = writable(np.asarray(array))  # once: slices of a memory-mapped file are slow
    if not isinstance(array, (np.ndarray, Tensor)):
        kind = type(array)
        how = MATRICES.get(kind.__module__.split('.')[0])
        hint = f': give {how.format(name.replace(" ", "_"))}' if how else ''
        raise TypeError(
            f'{name} must be a numpy array or a torch tensor, not {kind.__name__}{hint}'
        )
    if weights is None and (len(array.shape) != 2 or 0 in array.shape):
        raise ValueError(f'{name} {list(array.shape)} must be [rows, width], none of them 0')
    _refuse_other_types(array, name)
    step = max(1, CHECKED // math.prod(array.shape[1:]))
    # In place: small results that outlive their part fragment the heap.
    lengths = torch.ones(*array.shape[:-1])
    for start in range(0, len(array), step):
        part = slice(start, start + step)
        norms = float32(array, part).double().norm(dim=-1).cpu()
        if weights is not None:
            norms = norms.masked_fill(~mask[part], torch.inf)
        padding = ~mask[part] if weights is not None else torch.zeros_like(norms, dtype=torch.bool)
        low, high = LENGTHS_READ[geometry == 'inner_product']
        right = (norms >= low) & (norms <= high) | padding
        wrong = ~(right | (norms == 0)) if geometry == 'inner_product' else ~right
        if wrong.any():
            row, *token = wrong.nonzero()[0].tolist()
            where = f'row {start + row}' + ''.join(f', token {x}' for x in token)
            reason = why_unread(array[start + row][tuple(token)], geometry)
            raise ValueError(f'{name}: {where} {reason}')
        if geometry != 'inner_product':
            lengths[part] = norms.float()
    return Vectors((Part(array, lengths, weights),), geometry)


def read_items(videos: Any, ids: Any, geometry: Geometry) -> tuple[Vectors, Optional[np.ndarray]]:
    """Return items and their ids after checking them.

    Args:
        videos: see :func:`read_vectors`, or a source of :func:`.read_rows`.
        ids: one id an item; default those of the source, else None = row numbers.
        geometry: of the scores.

    Raises:
        FileNotFoundError, ImportError, TypeError, ValueError: see :func:`read_vectors`,
            :func:`read_ids` and :func:`.read_rows`.
    """
    arrays = videos
    if is_source(videos):
        arrays, named = read_rows(videos)
        ids = named if ids is None else ids
    if not isinstance(arrays, tuple):
        arrays = (arrays,)
    gallery, *more = (read_vectors(x, 'videos', geometry) for x in arrays)
    for x in more:
        check_width(x, gallery.width, 'further videos')
        gallery = gallery + x
    return gallery, read_ids(ids, len(gallery))


def why_unread(row: Any, geometry: Geometry) -> str:
    """Return why a row, float [D], cannot be read: its length is not one of :data:`LENGTHS_READ`.

    Example:
        ::

            >>> why_unread(np.array([1e300, 0.0]), 'cosine')
            'has the length 1e+300, out of the range of float32: multiply the rows by a constant'
    """
    if isinstance(row, Tensor):
        row = row.detach().cpu().double().numpy()
    row = np.asarray(row, dtype=np.float64)
    largest = np.abs(row).max()
    if not np.isfinite(largest):
        return 'is not finite, so it has no direction'
    if not largest:
        return 'is all zeros, so it has no direction'
    length = largest * np.linalg.norm(row / largest)
    scale = 'multiply the rows by a constant'
    if geometry == 'inner_product':
        return f'has the length {length:.3g}; sums of inner products leave float32: {scale}'
    return f'has the length {length:.3g}, out of the range of float32: {scale}'


def read_bank(bank: Any, width: Optional[int], geometry: Geometry = 'cosine') -> Bank:
    """Return a bank after checking it: an array of queries, or queries and their own items.

    Args:
        bank: float [B, D], or a tuple or list of two such arrays, the second of which may be None;
            or a :class:`Bank`.  Arrays may be sources of :func:`.read_rows`; a list of sources
            is one array.
        width: D; None = the width of the texts.
        geometry: of the scores.

    Raises:
        TypeError, ValueError: see :func:`read_vectors`; items without queries, numbers of rows that
            differ, another width.
    """
    if isinstance(bank, Bank):
        if width not in (None, bank.width):
            raise ValueError(f'bank texts have width {bank.width}, the videos {width}')
        return bank
    if is_source(bank):
        bank = _whole(bank)
    if isinstance(bank, list) and not any(isinstance(x, (np.ndarray, Tensor)) for x in bank):
        read_vectors(bank, 'bank texts')  # its error says how to convert a list
    if not isinstance(bank, (tuple, list)):
        bank = (bank, None)
    if len(bank) != 2:
        raise ValueError(f'a bank must be texts or (texts, videos), not {len(bank)} arrays')
    texts, videos = (_whole(x) if is_source(x) else x for x in bank)
    if texts is None:
        raise ValueError('the bank has videos only: it needs texts, queries seen before')
    width = read_vectors(texts, 'bank texts', geometry).width if width is None else width
    rows, group = _different(texts, 'bank texts', width, geometry)
    counts = group.bincount().float()
    if videos is None:
        return Bank(rows, len(group), geometry=geometry, counts=counts)
    items, item = _different(videos, 'bank videos', width, geometry)
    if len(item) != len(group):
        raise ValueError(
            f'the bank has {len(group)} texts and {len(item)} videos: row i of both is one pair'
        )
    pairs = torch.stack([group, item], dim=1).unique(dim=0)
    return Bank(rows, len(group), items, pairs, geometry, counts / pairs[:, 0].bincount())


def unpaired_bank(texts: Any, items: Any, width: int, geometry: Geometry = 'cosine') -> Bank:
    """Return queries and items seen before whose pairs are not known.

    Args:
        texts: float [K, D].
        items: float [M, D], or None.
        width, geometry: see :func:`read_bank`.

    Raises:
        TypeError, ValueError: see :func:`read_bank`.
    """
    rows, group = _different(texts, 'bank texts', width, geometry)
    seen = None if items is None else _different(items, 'bank videos', width, geometry)[0]
    counts = group.bincount().float()
    return Bank(rows, len(group), seen, geometry=geometry, counts=counts)


def _different(array: Any, name: str, width: int, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """Return the different rows, float32 [k, D], by first occurrence; each row's place there."""
    vectors = read_vectors(array, name, geometry)
    check_width(vectors, width, name)
    rows = vectors.unit()
    group = row_groups(rows.cpu())
    return rows[firsts(group).to(rows.device)], group


def check_width(vectors: Vectors, width: int, name: str) -> None:
    """Raise ValueError unless vectors have the width.

    Raises:
        ValueError: they have another width.
    """
    if vectors.width != width:
        raise ValueError(f'{name} have width {vectors.width}, the videos {width}')


def read_ids(ids: Any, items: int) -> Optional[np.ndarray]:
    """Return the ids of a gallery as an array [N], or None if none were given.

    Raises:
        TypeError: no sequence, see :func:`in_order`; ids that cannot be hashed.
        ValueError: not one id for each item, or an id that occurs twice.
    """
    if ids is None:
        return None
    ids = in_order(ids, 'ids')
    if not all(isinstance(x, Hashable) for x in ids):
        raise TypeError('ids must be texts, numbers or other hashable values')
    if len(ids) != items:
        raise ValueError(f'{len(ids)} ids for {items} videos, expected one per video')
    if len(set(ids)) < items:
        seen: set[Any] = set()
        twice = next(x for x in ids if x in seen or seen.add(x))
        raise ValueError(f'the id {str(twice)[:80]!r} occurs twice')
    if all(isinstance(x, (int, np.integer)) for x in ids):
        whole = np.array(ids)
        if whole.dtype.kind in 'iu':  # numpy makes floats of 2**63 beside -1
            return whole
    named = np.empty(items, dtype=object)
    named[:] = ids
    return named


def as_rows(rows: Any) -> Any:
    """Return rows as an index of tensors: a slice, row numbers [n] or bool [N]; None = all.

    Raises:
        TypeError: neither.

    Example:
        ::

            >>> as_rows([2, 0])
            tensor([2, 0])
    """
    if rows is None or isinstance(rows, slice):
        return slice(None) if rows is None else rows
    index = rows if isinstance(rows, Tensor) else torch.from_numpy(np.array(rows))
    if index.dim() != 1 or index.is_floating_point():
        raise TypeError(f'rows must be a slice, row numbers or bool, not {index.dtype}')
    return index.cpu()


def in_order(values: Any, name: str) -> list[Any]:
    """Return the values of a sequence: row i belongs to item i.

    Args:
        values: a list, tuple, range, numpy or torch array [N], or a column of pandas, polars or
            pyarrow.
        name: what errors call it.

    Raises:
        TypeError: no sequence, such as a set, the keys of a dict or a generator.

    Example:
        ::

            >>> in_order({'a', 'b'}, 'ids')
            Traceback (most recent call last):
            TypeError: ids must be a list or another sequence, row i of item i, not a set
    """
    refuse_unreadable(values, name)
    sequence = all(hasattr(values, x) for x in ('__len__', '__getitem__'))
    if (
        not sequence
        or isinstance(values, (str, bytes, Mapping))
        or (isinstance(values, (np.ndarray, Tensor)) and values.ndim != 1)
    ):
        raise TypeError(
            f'{name} must be a list or another sequence, row i of item i, not a '
            f'{type(values).__name__}'
        )
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if hasattr(values, 'to_pylist'):  # pyarrow: its scalars equal no str
        values = values.to_pylist()
    return list(values)


def score_tiles(queries: Tensor, gallery: Vectors, name: str = 'scores') -> Tiles:
    """Return tiles of the scores of all queries with all items, float32 [Q, N].

    A tile is bounded by its scores, and by the tokens that it reads: 16 MiB of either, on a GPU
    128 MiB.

    Args:
        queries: float32 [Q, D], or [Q, L, D + 1] for tokens.
        gallery: N items.
        name: name of the matrix in errors.
    """
    read = gallery.width * gallery.parts[0].array.shape[1] if queries.dim() == 3 else 1
    return Tiles(
        (len(queries), len(gallery)),
        lambda part: gallery.products(queries, part),
        tile_width(max(len(queries), read), _entries(queries)),
        name,
    )


def bank_tiles(queries: Tensor, gallery: Vectors, name: str = 'bank') -> Tiles:
    """Return :func:`score_tiles` with the scores of an item contiguous in memory: fitting reads
    them item by item, and finds the highest in half the time."""
    tiles = score_tiles(queries, gallery, name)
    if queries.dim() == 3:
        return tiles
    width = tile_width(max(len(queries), gallery.width), _entries(queries))
    aligned = pad(queries, (0, 0, 0, -len(queries) % LINE))

    def columns(part: slice) -> Tensor:
        scores = product(gallery.unit(part).to(queries.device), aligned.t())
        return scores[:, : len(queries)].t()

    return tiles._replace(columns=columns, width=width)


def products(queries: Tensor, items: Tensor, geometry: Geometry = 'cosine') -> Tensor:
    """Return the scores of normalised rows on the queries' device, float32 [Q, N], also under
    autocast."""
    if queries.dim() == 3:
        return late_products(queries, items, geometry)
    return product(queries, items.to(queries.device).t())


def own_products(queries: Tensor, items: Tensor, geometry: Geometry = 'cosine') -> Tensor:
    """Return the score of each query with the item of the same row, float32 [N]."""
    if queries.dim() == 3:
        return late_pairs(queries, items, geometry)
    return (queries * items).sum(1)


def _entries(queries: Tensor) -> int:
    return ENTRIES if queries.device.type == 'cpu' else GPU_ENTRIES


def _whole(source: Any) -> np.ndarray:
    """Return the vectors of a source in one array."""
    vectors = read_rows(source).vectors
    return np.concatenate(vectors) if isinstance(vectors, tuple) else vectors


def firsts(group: Tensor) -> Tensor:
    """Return the positions of the first entry of each value, int64 [G], increasing.

    Example:
        ::

            >>> firsts(torch.tensor([7, 7, 2, 7]))
            tensor([0, 2])
    """
    return torch.from_numpy(np.sort(np.unique(group.numpy(), return_index=True)[1]))


def _refuse_other_types(array: Any, name: str) -> None:
    if isinstance(array, Tensor):
        numbers = not (array.is_complex() or array.dtype == torch.bool)
    else:
        numbers = array.dtype.kind in 'fiu'
    if not numbers:
        raise ValueError(f'{name} must hold real numbers, not {array.dtype}')
