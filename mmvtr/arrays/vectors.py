"""Rows of vectors in one or more arrays, which are read a few at a time."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, Optional

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from mmvtr.arrays.tokens import late_products

#: Numbers converted to float32 at a time: as many as stay in a processor's cache.
CONVERTED = 2**19
#: Below this number of queries a product is faster with the rows first.
FEW = 16
#: Most numbers of two parts that are joined, so that further items leave few parts.
JOINED = 2**26
#: Types of numpy whose memory torch reads.
SHARED = {'f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1'}


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows of one array.

    Attributes:
        array: numpy or torch, float [M, D], or [M, L, D] for tokens; may be memory-mapped.
        lengths: float32 [n] or [n, L], the divisors of its n rows; ones for inner products,
            infinite at padding.
        weights: float32 [n, L], the weights of the tokens; None for single vectors.
        kept: int64 [n], increasing, which rows of the array these are; None = all.
    """

    array: Any
    lengths: Tensor
    weights: Optional[Tensor] = None
    kept: Optional[Tensor] = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def numbers(self) -> int:
        """How many numbers the rows hold."""
        return len(self) * int(np.prod(self.array.shape[1:]))

    def read(self, rows: slice | Tensor) -> Tensor:
        """Return some of the rows as they are, float32 [m, D] or [m, L, D]; may share memory."""
        return self._given(rows).float()

    def unit(self, rows: slice | Tensor) -> Tensor:
        """Return some of the rows, see :meth:`Vectors.unit`."""
        vectors = self.read(rows)
        length = self.lengths[rows][..., None].to(vectors.device)
        if self.weights is None:
            return vectors / length
        vectors = torch.where(length.isfinite(), vectors / length, 0)
        return torch.cat([vectors, self.weights[rows][..., None].to(vectors)], dim=-1)

    def products(self, queries: Tensor, rows: slice, out: Tensor) -> None:
        """Write the scores of queries, float32 [Q, D], with some of the rows, to ``out`` [Q, m]."""
        count, here = len(queries), queries.device
        few = count < FEW and here.type == 'cpu'
        plain = self.kept is None and str(self.array.dtype).endswith('float32')
        columns = queries.t()
        if count == 1:  # of rows that no cache holds two products are faster than one
            columns = torch.cat([queries, queries]).t() if plain else columns[:, 0]
        step = len(self) if plain else max(1, CONVERTED // self.array.shape[1])
        room = torch.empty(0)
        for start in range(rows.start, rows.stop, step):
            part = slice(start, min(start + step, rows.stop))
            block = self._given(part).to(here)
            if block.dtype != torch.float32:
                if not len(room):  # the first block is the largest
                    room = torch.empty(block.shape, device=here)
                block = room[: len(block)].copy_(block)
            if few:
                scores = (block @ columns).reshape(len(block), -1).t()[:count]
            else:
                scores = queries @ block.t()
            into = out[:, part.start - rows.start : part.stop - rows.start]
            torch.div(scores, self.lengths[part].to(here), out=into)

    def _given(self, rows: slice | Tensor) -> Tensor:
        return as_given(self.array, rows if self.kept is None else _run(self.kept[rows]))

    def without(self, gone: Tensor) -> Part:
        """Return the rows for which ``gone``, bool [n], is False; a copy if few are left."""
        left = (~gone).nonzero()[:, 0]
        weights = None if self.weights is None else self.weights[left]
        kept = left if self.kept is None else self.kept[left]
        part = Part(self.array, self.lengths[left], weights, kept)
        return part.copied() if 2 * len(kept) <= len(self.array) else part

    def copied(self) -> Part:
        """Return the same rows in an array of their own, unless they are many."""
        if self.kept is None or self.numbers > JOINED:
            return self
        kept = self.kept if isinstance(self.array, Tensor) else self.kept.numpy()
        return dataclasses.replace(self, array=self.array[kept], kept=None)

    def joined(self, other: Part) -> Part:
        """Return the rows of both in one array, of their type if both have the same."""
        one, two = (x.copied().array for x in (self, other))
        alike = type(one) is type(two) and one.dtype == two.dtype
        if not alike:
            one, two = (float32(x, slice(None)) for x in (one, two))
        if isinstance(one, Tensor):
            array = torch.cat([one, two.to(one.device)])
        else:
            array = np.concatenate([one, two])
        weights = None if self.weights is None else torch.cat([self.weights, other.weights])
        return Part(array, torch.cat([self.lengths, other.lengths]), weights)


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Rows of one or more arrays, which are never copied as a whole.

    Attributes:
        parts: the arrays and which of their rows.
        geometry: of the scores.
    """

    parts: tuple[Part, ...]
    geometry: str = 'cosine'

    @classmethod
    def of(cls, rows: Tensor, geometry: str = 'cosine') -> Vectors:
        """Return rows that are not normalised further, float32 [N, D] or [N, L, D + 1]."""
        return cls((Part(rows, torch.ones(rows.shape[:-1])),), geometry)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def width(self) -> int:
        return self.parts[0].array.shape[-1]

    @property
    def lengths(self) -> Tensor:
        """The rows' lengths, float32 [N]; of single vectors."""
        return torch.cat([x.lengths.cpu() for x in self.parts])

    @property
    def weighted(self) -> bool:
        """Whether rows are tokens with weights."""
        return self.parts[0].weights is not None

    def __add__(self, other: Vectors) -> Vectors:
        parts = [*self.parts, *other.parts]
        # A part is joined with one before it that is no longer: of N items added one by one,
        # log N parts are left, and each item was copied log N times.
        while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]) and _fit_one(*parts[-2:]):
            last = parts.pop()
            parts[-1] = parts[-1].joined(last)
        return Vectors(tuple(parts), self.geometry)

    def without(self, gone: Tensor) -> Vectors:
        """Return the rows for which ``gone``, bool [N], is False: at least one."""
        pieces = zip(self.parts, gone.split([len(x) for x in self.parts]))
        left = [part.without(here) if here.any() else part for part, here in pieces]
        return Vectors(tuple(x for x in left if len(x)), self.geometry)

    def unit(self, part: slice | Tensor = slice(None)) -> Tensor:
        """Return rows divided by their lengths, float32 [n, D], or [n, L, D + 1] for tokens."""
        if len(self.parts) == 1:
            return self.parts[0].unit(part)
        if isinstance(part, Tensor):
            return self._unit_of(part)
        pieces = padded([piece.unit(rows) for piece, rows, _ in self._pieces(part)])
        return torch.cat(pieces) if pieces else torch.empty(0, self.width)

    def products(self, queries: Tensor, part: slice = slice(None)) -> Tensor:
        """Return the scores of unit queries, float32 [Q, D] or [Q, L, D + 1], with some of the
        rows, float32 [Q, n] on the queries' device, also under autocast."""
        if queries.dim() == 3:
            return late_products(queries, self.unit(part), self.geometry)
        first, last, _ = part.indices(len(self))
        scores = queries.new_empty(len(queries), max(0, last - first))
        with torch.autocast(queries.device.type, enabled=False):
            for piece, rows, start in self._pieces(part):
                place = start - first
                piece.products(queries, rows, scores[:, place : place + rows.stop - rows.start])
        return scores

    def _pieces(self, part: slice) -> Iterator[tuple[Part, slice, int]]:
        """Yield the parts that hold rows of a slice, which of their rows, and the first's place."""
        first, last, _ = part.indices(len(self))
        start = 0
        for piece in self.parts:
            begin, end = max(first - start, 0), min(last - start, len(piece))
            if begin < end:
                yield piece, slice(begin, end), start + begin
            start += len(piece)

    def _unit_of(self, rows: Tensor) -> Tensor:
        starts = torch.tensor([len(x) for x in self.parts]).cumsum(0)
        number = torch.searchsorted(starts, rows, right=True)
        order, vectors = [], []
        for which, piece in enumerate(self.parts):
            here = (number == which).nonzero()[:, 0]
            if len(here):
                vectors.append(piece.unit(rows[here] - (starts[which] - len(piece))))
                order.append(here)
        if not vectors:
            return torch.empty(0, self.width)
        return torch.cat(padded(vectors))[torch.cat(order).argsort().to(vectors[0].device)]


def float32(array: Any, rows: Any) -> Tensor:
    """Return rows of an array as float32; memory is shared if they are float32 already.

    Args:
        array: numpy or torch, numbers [M, ...].
        rows: a slice, or int64 [m].

    Example:
        ::

            >>> float32(np.eye(2, dtype='float16'), slice(0, 1)).tolist()
            [[1.0, 0.0]]
    """
    return as_given(array, rows).float()


def as_given(array: Any, rows: Any) -> Tensor:
    """Return rows of an array as a tensor that shares its memory, if torch can read that, else as
    float32; arguments as of :func:`float32`.

    Example:
        ::

            >>> as_given(np.eye(2, dtype='float16'), slice(0, 1)).dtype
            torch.float16
    """
    if isinstance(array, Tensor):
        return array[rows].detach()
    view = writable(array)[rows.numpy() if isinstance(rows, Tensor) else rows]
    if view.dtype.str[1:] in SHARED and view.dtype.isnative and min((*view.strides, 0)) >= 0:
        return torch.from_numpy(view)
    with np.errstate(over='ignore'):  # what float32 does not hold is refused by its length
        return torch.from_numpy(np.array(view, dtype=np.float32))


class _Same:
    """An array's memory, of which numpy is told that it may be written."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = dict(interface, data=(interface['data'][0], False))


def writable(array: np.ndarray) -> np.ndarray:
    """Return the same memory for torch, which warns of a file mapped for reading; do not write.

    Example:
        ::

            >>> writable(np.frombuffer(b'ab', 'u1')).tolist()
            [97, 98]
    """
    return array if array.flags.writeable else np.asarray(_Same(array))


def _run(rows: Tensor) -> slice | Tensor:
    """Return increasing row numbers, or their slice if none is left out."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _fit_one(one: Part, two: Part) -> bool:
    """Return whether two parts are joined."""
    alike = one.array.shape[1:] == two.array.shape[1:]
    return alike and one.numbers + two.numbers <= JOINED


def padded(tensors: list[Tensor]) -> list[Tensor]:
    """Return rows of tokens with as many tokens in each tensor."""
    if not tensors or tensors[0].dim() == 2:
        return tensors
    longest = max(x.shape[1] for x in tensors)
    return [pad(x, (0, 0, 0, longest - x.shape[1])) for x in tensors]
