"""The interface of a gallery store, whichever engine holds its vectors."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Hashable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
from mmengine.logging import print_log

from mmvtr.arrays import Debiaser, Stale
from mmvtr.arrays.inputs import Geometry, in_order
from mmvtr.arrays.searching import checked_k
from mmvtr_gallery.store.calibrated import Calibrated
from mmvtr_gallery.store.filters import Condition, parsed
from mmvtr_gallery.store.items import (
    COLUMNS,
    Hit,
    Item,
    Rows,
    check_spans,
    checked_columns,
    checked_ids,
    checked_vectors,
    in_geometry,
    refuse_known,
    refuse_unknown,
    shown,
)
from mmvtr_gallery.store.occurrences import Occurrences, count_occurrences
from mmvtr_gallery.store.online import Reservoir
from mmvtr_gallery.store.quarantine import Quarantine
from mmvtr_gallery.store.refits import Fit, Refits, Vectors
from mmvtr_gallery.store.undoing import MOST, Change, Reversal, Undone, rows_of_items

#: Number of items per wanted value that a search for different values of a column starts with,
#: and the factor by which it grows.
FIRST, GROWTH = 16, 4


class How(NamedTuple):
    """Options of an engine's search.

    Attributes:
        conditions: conditions that all hits meet.
        transform: rank by score plus bias, else by the score alone.
        exact: compare with every item even if there is an approximate index.
    """

    conditions: Sequence[Condition]
    transform: bool
    exact: bool


class GalleryStore(Refits, Calibrated, Quarantine, ABC):
    """Items with vectors and biases, found by cosine (or inner product) plus bias.

    An engine implements the methods that begin with an underscore; public methods are the same for
    all. A change (:meth:`add`, :meth:`delete`, :meth:`refit`, :meth:`undo`, :meth:`calibrate`,
    :meth:`quarantine`, :meth:`release`) is atomic, and on disk or on the server when the call
    returns.

    Attributes:
        engine: the engine's name.
        writable: whether it was opened for writing.
        online: sample of the served queries; None: no sample.

    Example:
        ::

            >>> with open_store('DIR', write=True) as store:
            ...     store.add(['a', 'b'], vectors, paths=['a.mp4', 'b.mp4'])
            ...     store.refit(bank, temperature=0.05)
            ...     hits = store.search(queries, k=5, filter={'path': 'a.mp4'})
    """

    engine: str
    writable: bool
    online: Optional[Reservoir] = None

    def __init__(self) -> None:
        self._changing = threading.RLock()
        self._filling = False  # a new store, until it is first persisted
        self._joint = False  # within a change of two stores; and the state to publish at its end
        self._unpublished: Any = None

    # -- what is known of the whole ----------------------------------------------------------

    @property
    @abstractmethod
    def dim(self) -> int:
        """Return D of the vectors."""

    @property
    @abstractmethod
    def model(self) -> Optional[str]:
        """Return the fingerprint of the model that made the vectors."""

    @property
    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return the source of the vectors, JSON-serialisable."""

    @property
    @abstractmethod
    def types(self) -> dict[str, str]:
        """Return the types of the metadata columns, by name."""

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """Return ``'cosine'`` (vectors have length 1) or ``'inner_product'`` (unscaled)."""

    @property
    @abstractmethod
    def debiaser(self) -> Optional[Debiaser]:
        """Return the Debiaser that computes the items' biases; None for raw scores."""

    @property
    @abstractmethod
    def last_refit(self) -> Optional[dict[str, Any]]:
        """Return the options of the last refit."""

    @property
    def stale(self) -> Optional[Stale]:
        """Return how many items came or went after the last refit; None: it was none, or of an
        older version.  An item whose time of adding was given counts by that time.
        """
        refit = self.last_refit or {}
        if self.debiaser is None or 'items' not in refit:
            return None
        found = self.table(['added', 'bias'])[1]
        later = np.array([(x or 0) > refit['at'] for x in found['added']], bool)
        return Stale.of(np.array(found['bias'], np.float32), later, refit['items'])

    @property
    @abstractmethod
    def version(self) -> int:
        """Return a number that every change increases."""

    @property
    def state(self) -> Hashable:
        """Return a cache key that differs after every change and is never reused, even after
        failures.
        """
        return self.version

    @property
    def config(self) -> Optional[Path]:
        """Return the file of the model's config, if the store has one."""
        return None

    @property
    def unfinished(self) -> Optional[str]:
        """Return a sentence about a change of items and windows that a kill has interrupted; None:
        there is none, or this store is open for writing.
        """
        return None

    @property
    def lengths_matter(self) -> Optional[str]:
        """Return a sentence if a store of an older version ranks vectors of different norms by
        inner products; None: it does not, or was created to.
        """
        return None

    # -- changes -----------------------------------------------------------------------------

    def add(
        self,
        ids: Sequence[str],
        vectors: Vectors,
        *,
        paths: Optional[Sequence[Optional[str]]] = None,
        starts: Optional[Sequence[Optional[float]]] = None,
        ends: Optional[Sequence[Optional[float]]] = None,
        sigmas: Optional[Sequence[Optional[float]]] = None,
        metadata: Optional[Mapping[str, Sequence[Any]]] = None,
        model: Optional[str] = None,
        removing: Sequence[str] = (),
        added: Optional[float] = None,
    ) -> None:
        """Add N items and compute their biases; those of the others do not change.

        Calibrations are kept; where lists are calibrated, a message says how :attr:`stale` the fit
        is.

        Args:
            ids: N new ids.
            vectors: float [N, D], torch or numpy; stored scaled to length 1 for cosines.
            paths: the files.
            starts, ends: seconds from 0; if both are given, a start must be before its end.
            sigmas: the items' uncertainties.
            metadata: column -> N values of one type (str, int, float or bool), None allowed.
            model: fingerprint of the vectors' model, which must be the store's.
            removing: ids of items to remove in the same change; new items may reuse them.
            added: time of adding, in seconds since 1970; None: now.

        Raises:
            ValueError: ids that occur twice or are in the store already, vectors of another model,
                width or number or with entries that are not finite, an invalid column, an unknown
                id to remove.
            PermissionError: the store was opened for reading.
            OSError: it cannot be written; nothing has changed.
        """
        self._check_writable()
        self._check_model(model)
        ids = checked_ids(in_order(ids, 'ids'))
        vectors = self.checked(vectors, what='add')
        if len(ids) != len(vectors):
            raise ValueError(f'one vector per id expected: {len(ids)} ids, {len(vectors)} vectors')
        given = dict(path=paths, start=starts, end=ends, sigma=sigmas)
        columns, types = checked_columns(len(ids), given, metadata, self.types)
        check_spans(columns['start'], columns['end'])
        columns['added'] = [time.time() if added is None else float(added)] * len(ids)
        gone = checked_ids(removing) if len(removing) else []
        with self._changing:
            if gone:
                refuse_unknown(sorted(set(gone) - self._known(gone)))
            refuse_known(sorted(self._known(ids).difference(gone)))
            rows = Rows(ids, vectors, columns, types)
            self._change(gone, rows, self._biases(vectors), self._reversal(gone, ids))
            if self.topk_probabilities is not None and (stale := self.stale) and stale.added:
                print_log(f'{self}: {stale}', 'current')

    def delete(self, ids: Sequence[str]) -> None:
        """Remove items.

        Raises:
            ValueError: an unknown id; then none is removed.
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        ids = checked_ids(ids)
        with self._changing:
            known = self._known(ids)
            refuse_unknown([name for name in ids if name not in known])
            self._change(ids, None, np.zeros(0, np.float32), self._reversal(ids, []))

    def undo(self, kind: Optional[str] = None) -> Undone:
        """Undo the last add, delete, refit, quarantine or release; a second undo redoes it.

        Restored items get biases of
        the current fit.  Undoing a refit gives all items biases of the previous fit, including
        those added since.  The items that a new store had when it was first persisted cannot be
        undone.

        Args:
            kind: None: the last change; ``'refit'``: the last refit, even if items were added or
                removed since.

        Returns:
            What was undone.

        Raises:
            ValueError: there was no such change; it was of more than
                :data:`~mmvtr_gallery.store.undoing.MOST` items; an unknown kind.
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        if kind not in (None, 'refit'):
            raise ValueError(f"undo: 'refit' or nothing expected, got {str(kind)[:80]!r}")
        with self._changing:
            last = self.last_change
            if last is None and kind is None:
                raise ValueError(f'{self} has no change to undo')
            if kind == 'refit' or last.kind == 'refit':
                last = last if last is not None and last.kind == 'refit' else Change('refit')
                return Undone(last, self._undo_refit(not last.undone))
            if last.kind in ('quarantine', 'release'):
                self._undo_quarantine(last)
                return Undone(last)
            kept = self._kept_reversal()
            if kept is None:
                raise ValueError(
                    f'the last {last} cannot be undone: only changes of up to {MOST} items can'
                )
            rows = kept.removed
            names = [] if rows is None else rows.ids
            there = self._known([*{*names, *kept.added}])
            refuse_unknown(sorted({*kept.added} - there))
            refuse_known(sorted(there - {*kept.added}))
            biases = np.zeros(0, np.float32) if rows is None else self._biases(rows.vectors)
            reversal = self._reversal(kept.added, names, not last.undone)
            self._change(kept.added, rows, biases, reversal)
            return Undone(last)

    @property
    @abstractmethod
    def last_change(self) -> Optional[Change]:
        """Return the change that :meth:`undo` would undo; None before any change."""

    def undoable(self) -> list[tuple[str, float]]:
        """Return id and time of adding of the items that :meth:`undo` would restore."""
        with self._changing:
            last = self.last_change
            kept = None if last is None or last.items is None else self._kept_reversal()
            rows = None if kept is None else kept.removed
            return [] if rows is None else list(zip(rows.ids, rows.columns['added']))

    @contextmanager
    def kept(self) -> Iterator['GalleryStore']:
        """Make all changes within the block one change, discarded after an error.

        On a server each change is saved by itself.
        """
        yield self

    def persist(self) -> None:
        """Write the sample of served queries; end the filling of a new store, which cannot be
        undone.

        Raises:
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        with self._changing:
            self._persist()
            self._filling = False

    @abstractmethod
    def close(self) -> None:
        """Release the right to write; queries served since the last :meth:`persist` are lost."""

    def __enter__(self) -> 'GalleryStore':
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    # -- answers -----------------------------------------------------------------------------

    def get(self, ids: Sequence[str]) -> list[Item]:
        """Return items with their vectors, in the order of ``ids``.

        Raises:
            ValueError: an unknown id.
        """
        ids = checked_ids(ids)
        found = {item.id: item for item in self._fetch(ids)}
        refuse_unknown([name for name in ids if name not in found])
        return [found[name] for name in ids]

    def table(
        self, columns: Sequence[str], *, filter: Optional[Mapping[str, Any]] = None
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        """Return columns of all items that match, in arbitrary order.

        Args:
            columns: names of :data:`~mmvtr_gallery.store.items.COLUMNS`, of metadata, ``'bias'``,
                or ``'vector'``, each value of which is float32 [D].
            filter: see :meth:`search`.

        Returns:
            The engine's keys of N items, and lists of N values by column.

        Raises:
            ValueError: an unknown column, an invalid filter.
        """
        types = self.types
        unknown = [name for name in columns if name not in {*COLUMNS, *types, 'bias', 'vector'}]
        if unknown:
            raise ValueError(f'no column {shown(unknown[0])}; there are {", ".join(types)}'[:400])
        return self._listed(parsed(filter, types), list(columns))

    def occurrences(self, k: Optional[int] = None) -> Optional[Occurrences]:
        """Return how often items are among the top hits of the queries that the store knows; see
        :func:`~mmvtr_gallery.store.occurrences.count_occurrences`.
        """
        return count_occurrences(self, k)

    def count(self, filter: Optional[Mapping[str, Any]] = None) -> int:
        """Return the number of items, or of those that match a filter, including quarantined ones.

        Raises:
            ValueError: see :func:`~mmvtr_gallery.store.filters.parsed`.
        """
        return self._count(parsed(filter, self.types))

    def search(
        self,
        queries: Vectors,
        k: int = 10,
        *,
        filter: Optional[Mapping[str, Any]] = None,
        transform: bool = True,
        exact: bool = False,
        one_per: Optional[str] = None,
        record: bool = True,
        model: Optional[str] = None,
    ) -> list[list[Hit]]:
        """Return the k best items of each query, best first; fewer if fewer match the filter.

        A query's answer does not depend on the other queries of the call.  Quarantined items are
        excluded.

        With ``one_per`` the best m items are grouped by a column, and m grows until there are k
        groups; this is exact if the search is.

        Args:
            queries: float [Q, D], torch or numpy.
            k: 1 or more.
            filter: column -> value, list of values, or ``{'min': x, 'max': y}``.
            transform: rank by score plus bias, else by the score alone.
            exact: compare with every item even if there is an approximate index.
            one_per: a column; return only the best item for each of its values (``'path'``: the
                best part of each file); items without a value are not found.
            record: offer the queries to the sample of served queries, if there is one.
            model: see :meth:`add`.

        Returns:
            Q lists of hits.

        Raises:
            ValueError: an empty store, k < 1, queries of another model or width or not finite, an
                invalid filter, no such column.
        """
        self._check_model(model)
        if one_per is not None and one_per not in {**COLUMNS, **self.types}:
            raise ValueError(f'one_per: the store has no column {str(one_per)[:80]!r}')
        k = checked_k(k)
        queries = self.checked(queries, what='search')
        conditions = [*parsed(filter, self.types), *self._left_out()]
        if not self._count([]):
            raise ValueError('the store is empty')
        k, how = min(k, self._count([])), How(conditions, transform, exact)
        if one_per is None:
            hits = self._search(queries, k, how)
        else:
            hits = [self._one_per(query[None], k, one_per, how) for query in queries]
        if record and self.online is not None and self.writable:
            self._serve(queries)
        return hits

    def record(self, queries: Vectors) -> None:
        """Offer queries to the sample of served queries, like a search with ``record``.

        This does nothing in a store without a sample, or opened for reading.

        Args:
            queries: float [Q, D], torch or numpy.

        Raises:
            ValueError: another width or number, or entries that are not finite.
        """
        queries = self.checked(queries, what='record')
        if self.online is not None and self.writable:
            self._serve(queries)

    # -- of an engine ------------------------------------------------------------------------

    @abstractmethod
    def _known(self, ids: Sequence[str]) -> set[str]:
        """Return which of the ids are in the store."""

    @abstractmethod
    def _change(
        self,
        gone: Sequence[str],
        rows: Optional[Rows],
        biases: np.ndarray,
        reversal: Union[Reversal, Change, None],
    ) -> None:
        """Remove items and add new rows with their biases, float32 [N], as one change.

        ``reversal`` undoes it; a Change if it is too large for that; None while a new store is
        filled.
        """

    @abstractmethod
    def _kept_reversal(self) -> Optional[Reversal]:
        """Return what undoes the last change of items; None: it was too large."""

    @abstractmethod
    def _fetch(self, ids: Sequence[str]) -> list[Item]:
        """Return the items that have one of the ids, in any order."""

    @abstractmethod
    def _listed(
        self, conditions: Sequence[Condition], columns: list[str]
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        """Implement :meth:`table`; the keys are those of :meth:`_batches`."""

    @abstractmethod
    def _count(self, conditions: Sequence[Condition]) -> int:
        """Return the number of items that match."""

    @abstractmethod
    def _search(self, queries: np.ndarray, k: int, how: How) -> list[list[Hit]]:
        """Return the k best items of each query, best first."""

    @abstractmethod
    def _batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield keys [n], vectors float32 [n, D] and biases float32 [n] of all items in batches."""

    @abstractmethod
    def _switch(
        self, fit: Fit, biases: Iterable[tuple[np.ndarray, np.ndarray]], change: Change
    ) -> None:
        """Replace the Debiaser and all biases, which come as batches of keys and biases."""

    @property
    @abstractmethod
    def _before(self) -> Optional[Fit]:
        """Return the fit that the last :meth:`_switch` has replaced."""

    @abstractmethod
    def _persist(self) -> None:
        """Implement :meth:`persist`."""

    def _mark(self) -> Any:
        """Return the state that :meth:`_return_to` needs."""
        return self.version

    def _return_to(self, mark: Any) -> None:
        """Restore the state before a failed change of two stores, as far as the engine can.

        An engine that publishes each change at once undoes the last one.
        """
        last = self.last_change
        if self.version == mark or last is None:
            return
        try:
            self.undo('refit' if last.kind == 'refit' else None)
        except (OSError, ValueError) as error:
            print_log(
                f'{self} keeps the {last}, which the store beside it does not have: {error}',
                'current',
                logging.WARNING,
            )

    def _leaders(self, query: np.ndarray, m: int, column: str, how: How) -> tuple[list[Hit], int]:
        """Return, among the best m items of a query [1, D], the first for each value of a column,
        best first; and the number of items, fewer than m if there are no more.

        An engine for which making hits is slow overrides it.
        """
        firsts: dict[Any, Hit] = {}
        hits = self._search(query, m, how)[0]
        for hit in hits:
            value = getattr(hit.item, column) if column in COLUMNS else hit.item.metadata[column]
            if value is not None:
                firsts.setdefault(value, hit)
        return list(firsts.values()), len(hits)

    # -- shared ------------------------------------------------------------------------------

    def checked(self, vectors: Vectors, *, what: str) -> np.ndarray:
        """Return a user's vectors as this store compares them, float32 [N, D].

        Args:
            vectors: float [N, D], torch or numpy.
            what: their purpose, for errors.

        Raises:
            ValueError: another width or number, entries that are not finite; for cosines a row
                of zeros.
        """
        given = checked_vectors(vectors, self.dim, what=what)
        return in_geometry(given, self.geometry, what=what)

    def _check_writable(self) -> None:
        if not self.writable:
            raise PermissionError(f'{self} was opened for reading: open it with write=True')

    def _check_model(self, model: Optional[str]) -> None:
        if model is not None and self.model is not None and model != self.model:
            raise ValueError(
                f'vectors of the model {model[:80]}, but {self} holds those of {self.model[:80]}: '
                'they cannot be compared'
            )

    def _biases(self, vectors: np.ndarray) -> np.ndarray:
        """Return the biases of vectors, float32 [N, D] -> float32 [N]."""
        debiaser = self.debiaser
        if debiaser is None:
            return np.zeros(len(vectors), np.float32)
        return debiaser.biases_of(vectors).float().numpy()

    def _reversal(
        self, gone: Sequence[str], new: Sequence[str], undone: bool = False
    ) -> Union[Reversal, Change, None]:
        """Return what will undo a change of removed and added items; see :meth:`_change`."""
        if self._filling:
            return None
        if len(gone) + len(new) > MOST:
            kind = 'add' if not gone else 'replace' if new else 'delete'
            return Change(kind, len(gone) + len(new), undone)
        removed = rows_of_items(self.get(gone), self.types) if gone else None
        return Reversal(list(new), removed, undone)

    def _one_per(self, query: np.ndarray, k: int, column: str, how: How) -> list[Hit]:
        m, count = FIRST * k, self._count([])
        while True:
            m = min(m, count)
            hits, met = self._leaders(query, m, column, how)
            if len(hits) >= k or met < m or m == count:
                return hits[:k]
            m *= GROWTH

    def _serve(self, queries: np.ndarray) -> None:
        """Offer queries to the sample; refit from it if that is due and it is large enough."""
        with self._changing:
            before = self.online.seen
            self.online.offer(queries)
            every = self.refit_every
            if every and before // every != self.online.seen // every:
                try:
                    self.refit()
                except ValueError as error:  # the search itself must be answered
                    print_log(f'{self}: no refit now: {error}', 'current', logging.WARNING)

    #: Number of served queries after which a refit runs by itself; None: only on request.
    refit_every: Optional[int] = None
