"""Windows of a gallery's items, each with a vector and a bias, so that a search finds moments."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch

from mmvtr.errors import UserError
from mmvtr_gallery.store.filters import parsed
from mmvtr_gallery.store.items import (
    Hit,
    Item,
    checked_columns,
    checked_ids,
    shown,
)
from mmvtr_gallery.store.joint import WINDOWS, as_one
from mmvtr_gallery.store.moved import Moved
from mmvtr_gallery.store.opening import create_store, is_url, opened
from mmvtr_gallery.store.protocol import GalleryStore
from mmvtr_gallery.store.refits import Fit, Vectors, options_of
from mmvtr_gallery.store.replacing import holds_gallery
from mmvtr_gallery.store.undoing import Undone
from mmvtr_gallery.store.windowing import (
    ENTRY,
    OWNER,
    Windowing,
    Windows,
    rows_of_windows,
    sliding,
)

__all__ = ['BestWindow', 'MomentHit', 'MomentStore', 'Windowing', 'Windows', 'beside', 'sliding']


class MomentHit(NamedTuple):
    """An item and its best window.

    Attributes:
        score: the window's ranking score: ``raw``, plus its bias if requested.
        raw: inner product of query and window.
        item: the gallery's item, without its vector.
        start, end: the window, in seconds of the file.
        bias: the window's bias.
    """

    score: float
    raw: float
    item: Item
    start: float
    end: float
    bias: float


class BestWindow(NamedTuple):
    """The window of an item that best matches a query, in seconds of the file.

    Attributes:
        start, end: the window.
        score: ``raw``, plus its bias if requested.
        raw: inner product of query and window.
        bias: the window's bias.
        item_start, item_end: the span that the item's windows cover.
    """

    start: float
    end: float
    score: float
    raw: float
    bias: float
    item_start: float
    item_end: float


class MomentStore:
    """The windows of a gallery's items, in a second store beside it.

    The gallery itself is not changed.  A window belongs to an item's id and the time at which it
    was added.  So windows of an item that was deleted, or replaced by another with the same id, are
    never found, even if another process changed the gallery; after an undo that restores the item
    they are found again.  :meth:`sweep` removes orphaned windows for good.  After a kill an item
    has all of its windows or none; :meth:`missing` lists items without windows.

    :meth:`add`, :meth:`delete`, :meth:`refit` and :meth:`undo` change items and windows
    atomically (:mod:`~mmvtr_gallery.store.joint`): after a kill both are old or both new.

    Args:
        items: the gallery.
        windows: the second store, an ordinary one with its own ``index`` and ``persist``.

    Raises:
        ValueError: the second store has an invalid windowing.

    Attributes:
        windowing: how a video is cut into windows; None: not recorded.

    Example:
        ::

            >>> with open_store('DIR') as items, MomentStore.create(items, 'DIR') as moments:
            ...     moments.put({'a': Windows([0.0, 2.0], [4.0, 6.0], vectors)})
            ...     moments.windows.refit(bank, temperature=0.05, fewer=True)
            ...     hits = moments.search(queries, k=5)
    """

    def __init__(self, items: GalleryStore, windows: GalleryStore) -> None:
        self.items, self.windows = items, windows
        self.windowing = Windowing.of(windows.about)

    @classmethod
    def create(
        cls,
        items: GalleryStore,
        location: Union[str, Path],
        windowing: Optional[Windowing] = None,
    ) -> 'MomentStore':
        """Create an empty store of windows, open for writing.

        Args:
            items: the gallery.
            location: its folder or URL.
            windowing: how the tools and the service cut videos that they add later; None: these get
                no windows.

        Raises:
            FileExistsError, FolderInUse, OSError: see
                :func:`~mmvtr_gallery.store.opening.create_store`.
        """
        about = items.about if windowing is None else {**items.about, **windowing.about()}
        options = dict(model=items.model, about=about, geometry=items.geometry)
        return cls(items, create_store(beside(location), items.dim, **options))

    @classmethod
    def open(
        cls, items: GalleryStore, location: Union[str, Path], *, write: bool = False
    ) -> 'MomentStore':
        """Open an existing store of windows.

        Args:
            items, location: see :meth:`create`.
            write: whether to open it for writing.

        Raises:
            FileNotFoundError: there are no windows.
            FolderInUse, RuntimeError: see :func:`~mmvtr_gallery.store.opening.open_store`; also a
                missing file.
            ValueError: the windows are of another model than the items, or have an invalid
                windowing.
        """
        place = beside(location)
        try:
            windows = opened(place, write=write)
        except FileNotFoundError as error:
            if is_url(location) or not holds_gallery(place):
                raise
            raise UserError(f'the windows are damaged: {error}') from error
        try:
            alike = (windows.model, windows.dim, windows.geometry)
            if alike != (items.model, items.dim, items.geometry):
                raise ValueError(f'{windows} is of another model than {items}: make it anew')
            return cls(items, windows)
        except BaseException:
            windows.close()
            raise

    def close(self) -> None:
        """Release the right to write windows; the gallery stays open."""
        self.windows.close()

    def __enter__(self) -> 'MomentStore':
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    # -- changes of windows ------------------------------------------------------------------

    def put(self, windows: Mapping[str, Windows]) -> None:
        """Set the windows of items, replacing those that they have, as one change.

        A window gets its bias from the last refit of the windows, and its item's path, sigma and
        metadata for filters.

        Args:
            windows: windows by item id.

        Raises:
            ValueError: an unknown id, no windows, a window that ends before it starts, vectors of
                another width or number, a column of the gallery with a reserved name.
            PermissionError, OSError: see :meth:`~mmvtr_gallery.store.protocol.GalleryStore.add`.
        """
        owners = self.items.get(list(windows))
        rows = rows_of_windows(owners, windows, list(self.items.types), self.items.dim)
        old: list[str] = []
        if self.windows.count():
            of = {OWNER: [owner.id for owner in owners]}
            old = self.windows.table(['id'], filter=of)[1]['id']
        self.windows.add(**rows, model=self.items.model, removing=old)

    def sweep(self, *, undoable: bool = True) -> int:
        """Remove windows whose item was removed or replaced; return their number.

        Args:
            undoable: also remove windows of items that an undo would restore.

        Raises:
            PermissionError, OSError: see :meth:`put`.
        """
        gone = self._gone(undoable)
        if gone:
            self.windows.delete(gone)
        return len(gone)

    def _gone(self, undoable: bool) -> list[str]:
        """Return the ids of the windows that :meth:`sweep` removes."""
        if not self.windows.count():
            return []
        known = {*_entries(self.items, 'id', 'added')}
        if not undoable:
            known.update(self.items.undoable())
        columns = self.windows.table(['id', OWNER, ENTRY])[1]
        names, *owners = (columns[name] for name in ('id', OWNER, ENTRY))
        return [name for name, *owner in zip(names, *owners) if tuple(owner) not in known]

    # -- changes of items and windows ---------------------------------------------------------

    @contextmanager
    def kept(self) -> Iterator['MomentStore']:
        """Make all changes of items and windows within the block one change; see
        :meth:`~mmvtr_gallery.store.protocol.GalleryStore.kept`.

        Raises:
            OSError: it cannot be written.
        """
        with as_one(self.items, self.windows):
            yield self

    def persist(self) -> None:
        """Persist items and windows as one change; see
        :meth:`~mmvtr_gallery.store.protocol.GalleryStore.persist`.

        Raises:
            PermissionError, OSError: see :meth:`put`.
        """
        with as_one(self.items, self.windows):
            self.items.persist()
            self.windows.persist()

    def add(
        self,
        ids: Sequence[str],
        vectors: Vectors,
        *,
        windows: Mapping[str, Windows],
        **given: Any,
    ) -> None:
        """Add items and their windows as one change, so that no item is there without its windows.

        Args:
            ids, vectors, given: see :meth:`~mmvtr_gallery.store.protocol.GalleryStore.add`.
            windows: windows by id; an item without any is found only by its own vector.

        Raises:
            ValueError: windows of an id that is not among ``ids``; also see that method.
            PermissionError, OSError: see that method and :meth:`put`.
        """
        added = time.time()
        ids = checked_ids(ids)
        others = sorted(set(windows) - set(ids))
        if others:
            raise ValueError(f'windows of {shown(others[0])}, which is not among the new items')
        there = self.items._known(ids) - set(given.get('removing') or ())
        with as_one(self.items, self.windows):
            if windows and not there:  # otherwise the items are refused
                types = self.items.types
                owners = [one for one in _to_come(ids, added, given, types) if one.id in windows]
                names = list({**types, **(given.get('metadata') or {})})
                rows = rows_of_windows(owners, windows, names, self.items.dim)
                self.windows.add(**rows, model=self.items.model, removing=self._gone(False))
            self.items.add(ids, vectors, added=added, **given)

    def delete(self, ids: Sequence[str]) -> None:
        """Remove items; the next change removes their windows, as an undo may restore the items.

        Raises:
            ValueError, PermissionError, OSError: see

                :meth:`~mmvtr_gallery.store.protocol.GalleryStore.delete`.
        """
        with as_one(self.items, self.windows):
            self.items.delete(ids)
            self.sweep(undoable=False)

    def refit(self, queries: Optional[Vectors] = None, **options: Any) -> Moved:
        """Compute new biases of all items, and of all windows with the same options and queries.

        Args:
            queries, options: see :meth:`~mmvtr_gallery.store.refits.Refits.refit`.

        Returns:
            How far the ranking of the items has moved.

        Raises:
            ValueError, PermissionError, OSError: see that method.
        """
        # A query that is served meanwhile does not enter the sample.
        with as_one(self.items, self.windows):
            bank = queries
            if queries is None and self.items.online is not None:
                bank = self.items.online.queries()
            alike = self._alike()
            moved = self.items.refit(queries, **options)
            now = Fit(self.items.debiaser, self.items.last_refit)
            self.sweep()  # or windows that are never found would influence the biases
            if not alike:  # first give windows the items' old fit, so that an undo finds both alike
                before = self.items._before
                self._follow(before, before.debiaser and before.debiaser.bank_.texts)
            self._follow(now, bank)
            return moved

    def _follow(self, fit: Fit, bank: Optional[Vectors]) -> None:
        """Refit the windows with the transform and the bank of an items' fit."""
        if not self.windows.count():
            return
        if fit.debiaser is None:
            self.windows.refit(transform=None)
            return
        options = dict(transform=fit.refit['transform'], **options_of(fit.refit))
        self.windows.refit(bank, items=fit.debiaser.bank_.items, **options, fewer=True)

    @property
    def alike(self) -> bool:
        """Return whether items and windows have biases of the same refit; True without windows."""
        return not self.windows.count() or self._alike()

    def _alike(self) -> bool:
        """Return whether the last refits of items and windows were one change."""
        items, windows = (Fit(x.debiaser, x.last_refit) for x in (self.items, self.windows))
        return _one_change(items, windows)

    def undo(self, kind: Optional[str] = None) -> Undone:
        """Undo the last change of the items, and what belongs to it in the windows.

        A refit of the windows is undone if it was one change with that of the items.

        Args:
            kind: see :meth:`~mmvtr_gallery.store.protocol.GalleryStore.undo`.

        Raises:
            ValueError, PermissionError, OSError: see that method.
        """
        before = self.items._before, self.windows._before
        both = None not in before and self._alike() and _one_change(*before)
        with as_one(self.items, self.windows):
            undone = self.items.undo(kind)
            if undone.change.kind == 'refit' and both:
                self.windows.undo('refit')
            return undone

    # -- answers -----------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """Return the ids of the items without windows, sorted."""
        known = {*_entries(self.windows, OWNER, ENTRY)}
        return sorted(x[0] for x in _entries(self.items, 'id', 'added') if x not in known)

    def search(
        self,
        queries: Vectors,
        k: int = 10,
        *,
        filter: Optional[Mapping[str, Any]] = None,
        transform: bool = True,
        exact: bool = False,
        model: Optional[str] = None,
    ) -> list[list[MomentHit]]:
        """Return the k items with the best windows, best first, each with its best window.

        The result is exact if the search of the windows is.

        Args:
            queries, transform, exact, model: see

                :meth:`~mmvtr_gallery.store.protocol.GalleryStore.search`.
            k: 1 or more.
            filter: see there; ``id`` and ``added`` are the item's, ``start`` and ``end`` the
                window's.

        Returns:
            Q lists of hits.

        Raises:
            ValueError: see :meth:`~mmvtr_gallery.store.protocol.GalleryStore.search`; no windows.
        """
        if type(k) is not int or k < 1:
            raise ValueError(f'k must be 1 or more, not {str(k)[:80]}')
        queries = self.windows.checked(queries, what='search')
        parsed(filter, self.items.types)  # refuses invalid conditions
        names = {'id': OWNER, 'added': ENTRY}
        filter = {names.get(column, column): wanted for column, wanted in (filter or {}).items()}
        if not self.windows.count():
            raise ValueError(f'{self.windows} is empty: there are no moments')
        if any(
            column in self.items.types and column not in self.windows.types for column in filter
        ):
            return [[] for _ in queries]  # no window has a value in this column
        options = dict(filter=filter, transform=transform, exact=exact, model=model, record=False)
        return [self._search(query[None], k, options) for query in queries]

    def _search(self, query: np.ndarray, k: int, options: dict[str, Any]) -> list[MomentHit]:
        wanted, held = k, set(self.items.quarantined)
        while True:
            hits = self.windows.search(query, wanted, one_per=OWNER, **options)[0]
            found = self.items._fetch([_owner(hit.item) for hit in hits]) if hits else []
            entries = {item.id: item._replace(vector=None) for item in found}
            there = [hit for hit in hits if _belongs(hit, entries) and _owner(hit.item) not in held]
            best = [_told(hit, entries[_owner(hit.item)]) for hit in there]
            if len(best) >= k or len(hits) < wanted:
                return best[:k]
            wanted *= 2  # some windows belong to removed or quarantined items

    def best(
        self, query: Vectors, items: Sequence[Item], *, transform: bool = True
    ) -> list[Optional[BestWindow]]:
        """Return the best window of each of these items, whatever their order, by exact search.

        Args:
            query: float [1, D].
            items: items from a search of the gallery.
            transform: score with biases.

        Returns:
            One window for each item; None: it has no windows.

        Raises:
            ValueError: a query of another width, or not finite.
        """
        query = self.windows.checked(query, what='search')
        if not items or not self.windows.count():
            return [None] * len(items)
        names = OWNER, ENTRY, 'start', 'end', 'bias', 'vector'
        owners = dict(zip(names[:2], ([x.id for x in items], [x.added for x in items])))
        columns = self.windows.table(names, filter=owners)[1]
        added, rows = {item.id: item.added for item in items}, {}
        for row, (name, entry) in enumerate(zip(columns[OWNER], columns[ENTRY])):
            if added[name] == entry:  # else it is of a replaced item
                rows.setdefault(name, []).append(row)
        return [self._best(query[0], columns, rows.get(item.id), transform) for item in items]

    def _best(
        self,
        query: np.ndarray,
        columns: Mapping[str, list[Any]],
        rows: Optional[list[int]],
        transform: bool,
    ) -> Optional[BestWindow]:
        if rows is None:
            return None
        starts, ends, biases, vectors = (
            [columns[name][row] for row in rows] for name in ('start', 'end', 'bias', 'vector')
        )
        raws = np.stack(vectors) @ query
        scores = raws + np.array(biases, np.float32) if transform else raws
        at = int(scores.argmax())
        found = starts[at], ends[at], float(scores[at]), float(raws[at]), biases[at]
        return BestWindow(*found, min(starts), max(ends))


def beside(location: Union[str, Path]) -> str:
    """Return the location of a gallery's windows, given its folder or URL."""
    return f'{location}.moments' if is_url(location) else str(Path(location, WINDOWS))


def _owner(window: Item) -> str:
    return window.metadata[OWNER]


def _belongs(hit: Hit, items: Mapping[str, Item]) -> bool:
    """Return whether a window's item exists and is the one that the window was made from."""
    item = items.get(_owner(hit.item))
    return item is not None and item.added == hit.item.metadata[ENTRY]


def _told(hit: Hit, item: Item) -> MomentHit:
    window = hit.item
    return MomentHit(hit.score, hit.raw, item, window.start, window.end, window.bias)


def _options(refit: Optional[Mapping[str, Any]]) -> Optional[list[Any]]:
    """Return the refit options that items and windows share; None: there are no biases."""
    if refit is None or refit['transform'] is None:
        return None
    return [refit['transform'], options_of(refit), refit.get('num_queries')]


def _one_change(items: Fit, windows: Fit) -> bool:
    """Return whether one refit made both biases: with the same options and the same queries."""
    if _options(items.refit) != _options(windows.refit):
        return False
    if items.debiaser is None or windows.debiaser is None:
        return items.debiaser is windows.debiaser
    return torch.equal(items.debiaser.bank_.texts, windows.debiaser.bank_.texts)


def _to_come(
    ids: list[str], added: float, given: Mapping[str, Any], types: Mapping[str, str]
) -> list[Item]:
    """Return the items that are being added, with the fields that their windows need, typed."""
    own, metadata = dict(path=given.get('paths'), sigma=given.get('sigmas')), given.get('metadata')
    columns, _ = checked_columns(len(ids), own, metadata, types)
    return [
        Item(
            name,
            columns['path'][row],
            None,
            None,
            columns['sigma'][row],
            added,
            0.0,
            {column: columns[column][row] for column in metadata or {}},
        )
        for row, name in enumerate(ids)
    ]


def _entries(store: GalleryStore, name: str, entry: str) -> list[tuple[str, float]]:
    """Return id and time of entry of each item, or of each window's item, in quarantine or not."""
    if not store.count():
        return []
    columns = store.table([name, entry])[1]
    return list(zip(columns[name], columns[entry]))
