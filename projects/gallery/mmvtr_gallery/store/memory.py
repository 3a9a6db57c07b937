"""The items of a store in memory: searched exactly by FAISS, or with an approximate index."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr_gallery.store.columns import Columns
from mmvtr_gallery.store.filters import Condition
from mmvtr_gallery.store.items import COLUMNS, Hit, Item, Rows
from mmvtr_gallery.store.lifted import WITHOUT_BIAS, LiftedIndex, among, load_faiss
from mmvtr_gallery.store.protocol import How

#: Number of items read at a time.
BATCH = 65536
#: Up to this many excluded items, a search retrieves that many more and drops them.
FEW = 100
#: Factor by which the number of candidates grows while the last of them have equal scores.
MORE = 8


class Held(NamedTuple):
    """N items in the order in which they were added; immutable, a change returns a new one.

    Attributes:
        both: float32 [N, D + 1], vectors with the biases as last column.
        columns: lists of N values by name.
        coded: the same columns, for conditions.
        lifted: the approximate index; None: there is none.
    """

    both: np.ndarray
    columns: dict[str, list]
    coded: Columns
    lifted: Optional[LiftedIndex]

    @classmethod
    def of(
        cls,
        both: np.ndarray,
        columns: dict[str, list],
        index: Optional[Mapping[str, Any]] = None,
        lifted: Optional[LiftedIndex] = None,
    ) -> 'Held':
        """Return items with their index, ``lifted`` or else built by the options ``index``.

        Raises:
            ImportError: faiss is missing; says what to install.
        """
        return cls(both, columns, Columns(columns), _indexed(both, index, lifted))

    @classmethod
    def none(cls, dim: int) -> 'Held':
        """Return a state without items, of width ``dim``."""
        return cls.of(np.zeros((0, dim + 1), np.float32), {name: [] for name in COLUMNS})

    @property
    def vectors(self) -> np.ndarray:
        """Return the vectors, float32 [N, D]."""
        return self.both[:, :-1]

    @property
    def biases(self) -> np.ndarray:
        """Return the biases, float32 [N]."""
        return self.both[:, -1]

    # -- changes -----------------------------------------------------------------------------

    def grown(
        self, rows: Rows, biases: np.ndarray, types: Mapping[str, str], index: Optional[Any]
    ) -> 'Held':
        """Return the items with new ones appended; an index grows in place (:meth:`whole`)."""
        columns, count = {}, len(self.both)
        for name in [*COLUMNS, *types]:
            before = self.columns.get(name) or [None] * count
            new = rows.ids if name == 'id' else rows.columns.get(name) or [None] * len(rows.ids)
            columns[name] = before + new
        both = np.concatenate((self.both, np.column_stack((rows.vectors, biases))))
        lifted = self.lifted
        if lifted is not None and not lifted.add(rows.vectors, biases):
            lifted = None  # must be rebuilt
        return Held.of(both, columns, index, lifted)

    def without(self, rows: Sequence[int], index: Optional[Any]) -> 'Held':
        """Return the items without some rows."""
        keep = np.ones(len(self.both), bool)
        keep[rows] = False
        places = np.flatnonzero(keep).tolist()
        columns = {name: [values[row] for row in places] for name, values in self.columns.items()}
        return Held.of(self.both[keep], columns, index)

    def biased(self, biases: np.ndarray, index: Optional[Any]) -> 'Held':
        """Return the items with other biases, float32 [N]."""
        both = self.both.copy()
        both[:, -1] = biases
        kept = self.lifted if index is not None and index['form'] in WITHOUT_BIAS else None
        return self._replace(both=both, lifted=_indexed(both, index, kept))

    def whole(self, index: Optional[Any]) -> 'Held':
        """Return the items after a failed change, whose index may have grown."""
        if self.lifted is None or self.lifted.count == len(self.both):
            return self
        return self._replace(lifted=_indexed(self.both, index))

    # -- answers -----------------------------------------------------------------------------

    def item(self, row: int) -> Item:
        """Return the item of a row, without its vector."""
        metadata = {name: x[row] for name, x in self.columns.items() if name not in COLUMNS}
        bias = float(self.both[row, -1])
        return Item(*(self.columns[name][row] for name in COLUMNS), bias, metadata)

    def hits(self, scores: np.ndarray, rows: np.ndarray, transform: bool) -> list[Hit]:
        """Return the hits for scores float32 [n] and rows int64 [n]."""
        raws = scores - (self.biases[rows] if transform else 0)
        return [
            Hit(float(score), float(raw), self.item(row))
            for score, raw, row in zip(scores, raws, rows.tolist())
        ]

    def leaders(self, rows: np.ndarray, column: str) -> list[int]:
        """Return the positions in rows int64 [n] where a value of a column occurs first."""
        firsts: dict[Any, int] = {}
        for place, row in enumerate(rows.tolist()):
            value = self.columns[column][row]
            if value is not None:
                firsts.setdefault(value, place)
        return list(firsts.values())

    def listed(
        self, conditions: Sequence[Condition], columns: Sequence[str]
    ) -> tuple[list[int], dict[str, list[Any]]]:
        """Return the rows that match, and their values of columns, ``'vector'`` or ``'bias'``."""
        rows = [*range(len(self.both))]
        if conditions:
            rows = np.flatnonzero(self.coded.mask(conditions)).tolist()
        found: dict[str, list[Any]] = {}
        for name in columns:
            if name == 'vector':
                found[name] = list(self.vectors[rows])
            elif name == 'bias':
                found[name] = self.biases[rows].tolist()
            else:
                found[name] = [self.columns[name][row] for row in rows]
        return rows, found

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield row numbers, vectors and biases of all items in batches."""
        for start in range(0, len(self.both), BATCH):
            part = self.both[start : start + BATCH]
            yield np.arange(start, start + len(part)), part[:, :-1], part[:, -1]

    def search(
        self,
        queries: np.ndarray,
        k: int,
        conditions: Sequence[Condition],
        *,
        transform: bool,
        exact: bool,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return scores float32 [n] and rows int64 [n] of each query's k best items, best first.

        Args:
            queries: float32 [Q, D].
            k: 1 or more.
            conditions: conditions that all found items meet.
            transform: rank by score plus bias, else by the score alone.
            exact: compare with every item even if there is an index.
        """
        allowed = self.coded.mask(conditions) if conditions else None
        count = len(self.both)
        there = count if allowed is None else int(np.count_nonzero(allowed))
        most, lifted = min(k, there), self.lifted
        if not most:
            return [(np.zeros(0, np.float32), np.zeros(0, np.int64)) for _ in queries]
        if exact or lifted is None or count - there > lifted.most_left_out:
            found = self._exactly(queries, most, allowed, count - there, transform)
        else:
            items = self.vectors, self.biases
            found = lifted.search(queries, most, *items, allowed=allowed, transform=transform)
        return [(scores[at >= 0], at[at >= 0]) for scores, at in zip(*found)]

    def _exactly(
        self,
        queries: np.ndarray,
        k: int,
        allowed: Optional[np.ndarray],
        left_out: int,
        transform: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        last = np.full((len(queries), 1), float(transform), np.float32)
        asked = np.concatenate((queries, last), axis=1)
        if left_out > FEW:
            return _nearest(asked, self.both, k, among(allowed))
        scores, rows = _nearest(asked, self.both, k + left_out)
        return (scores, rows) if not left_out else _first(scores, rows, k, allowed)


class InMemory:
    """The part of a store that answers from items in memory."""

    _held: Held
    _changing: Any
    _current: Callable[[], Any]

    def _known(self, ids: Sequence[str]) -> set[str]:
        return self._now().coded.known('id', ids)

    def _fetch(self, ids: Sequence[str]) -> list[Item]:
        held = self._now()
        rows = held.coded.rows('id', ids)
        return [held.item(row)._replace(vector=held.vectors[row].copy()) for row in rows]

    def _listed(
        self, conditions: Sequence[Condition], columns: list[str]
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        return self._now().listed(conditions, columns)

    def _count(self, conditions: Sequence[Condition]) -> int:
        held = self._now()
        return int(held.coded.mask(conditions).sum()) if conditions else len(held.both)

    def _search(self, queries: np.ndarray, k: int, how: How) -> list[list[Hit]]:
        held, found = self._found(queries, k, how)
        return [held.hits(*one, how.transform) for one in found]

    def _leaders(self, query: np.ndarray, m: int, column: str, how: How) -> tuple[list[Hit], int]:
        held, [(scores, rows)] = self._found(query, m, how)
        first = held.leaders(rows, column)
        return held.hits(scores[first], rows[first], how.transform), len(rows)

    def _found(
        self, queries: np.ndarray, k: int, how: How
    ) -> tuple[Held, list[tuple[np.ndarray, np.ndarray]]]:
        """Return the searched items, and scores and rows of the hits of each query."""
        options = dict(transform=how.transform, exact=how.exact)
        held = self._now()
        if held.lifted is None:
            return held, held.search(queries, k, how.conditions, **options)
        with self._changing:  # an add grows the index in place
            held = self._now()
            return held, held.search(queries, k, how.conditions, **options)

    def _batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        yield from self._now().batches()

    def _now(self) -> Held:
        self._current()
        return self._held


def _indexed(
    both: np.ndarray, index: Optional[Mapping[str, Any]], lifted: Optional[LiftedIndex] = None
) -> Optional[LiftedIndex]:
    """Return the given index, or build one if the options ask for it."""
    load_faiss()
    if lifted is None and index is not None and len(both) >= index['partitions']:
        lifted = LiftedIndex(both[:, :-1], both[:, -1], index)
    return lifted


def _nearest(
    queries: np.ndarray, rows: np.ndarray, k: int, selected: Optional[Any] = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest inner products [Q, k], and their rows; of equal ones the lowest first.

    FAISS takes any of equal ones, so where the next one equals the last, more are asked for.
    """
    most = min(k + 1, len(rows))
    scores, places = _asked(queries, rows, most, selected)
    cut = np.flatnonzero(scores[:, k] == scores[:, k - 1]) if most > k else np.zeros(0, int)
    scores, places = _lowest_first(scores, places, k)
    while len(cut):
        most = min(most * MORE, len(rows))
        more = _asked(queries[cut], rows, most, selected)
        scores[cut], places[cut] = _lowest_first(*more, k)
        cut = cut[(more[0][:, -1] == more[0][:, k - 1]) & (most < len(rows))]
    return scores, places


def _lowest_first(scores: np.ndarray, places: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best of candidates [Q, n], of equal scores the lowest row first."""
    order = np.lexsort((places, -scores))[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)


def _asked(
    queries: np.ndarray, rows: np.ndarray, k: int, selected: Optional[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return k of the largest inner products, in any order of equal ones.

    FAISS reads the rows in place; an index would copy them.
    """
    faiss = load_faiss()
    queries = np.ascontiguousarray(queries)
    scores = np.empty((len(queries), k), np.float32)
    places = np.empty((len(queries), k), np.int64)
    faiss.knn_inner_product(
        *(faiss.swig_ptr(queries), faiss.swig_ptr(rows), rows.shape[1], len(queries), len(rows)),
        *(k, faiss.swig_ptr(scores), faiss.swig_ptr(places), selected),
    )
    return scores, places


def _first(
    scores: np.ndarray, rows: np.ndarray, k: int, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first k allowed candidates of each query, from [Q, n] with at least k of them."""
    order = np.argsort(~allowed[rows], axis=1, kind='stable')[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
