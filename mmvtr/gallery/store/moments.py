"""Windows of a gallery's items, each with a vector and a bias: one search finds item and moment."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from mmvtr.gallery.store.filters import parsed
from mmvtr.gallery.store.items import Hit, Item, checked_vectors
from mmvtr.gallery.store.opening import create_store, is_url, open_store
from mmvtr.gallery.store.protocol import GalleryStore
from mmvtr.gallery.store.refits import Vectors

#: Columns of a window that say whose it is: id of its item, and when that was added.
OWNER, ENTRY = 'of_item', 'of_added'


class Windows(NamedTuple):
    """W windows of one item, 1 or more.

    Attributes:
        starts, ends: seconds of the file, [W].
        vectors: float [W, D], of the model that made the items' vectors.
    """

    starts: Sequence[float]
    ends: Sequence[float]
    vectors: Vectors


class MomentHit(NamedTuple):
    """An item and its best window.

    Attributes:
        score: of the window, by which it was ranked: ``raw``, and its bias if that was asked for.
        raw: inner product of query and window.
        item: as the gallery has it, without its vector.
        start, end: of the window, in seconds of the file.
        bias: of the window.
    """

    score: float
    raw: float
    item: Item
    start: float
    end: float
    bias: float


class MomentStore:
    """The windows of a gallery's items, in a second store beside it, of any engine.

    The gallery stays as it is.  A window belongs to one entry of an item: to its id and the time at
    which it was added.  So windows of an item that was deleted, or replaced by another of the same
    id, are never found, even if another process changed the gallery; :meth:`sweep` removes them.
    After a kill an item has all of its windows or none; :meth:`missing` names those that have none.

    Args:
        items: the gallery.
        windows: the second store, an ordinary one: ``index``, ``refit``, ``undo`` and ``persist``
            are its own.

    Example:
        ::

            >>> with open_store('DIR') as items, MomentStore.create(items, 'DIR') as moments:
            ...     moments.put({'a': Windows([0.0, 2.0], [4.0, 6.0], vectors)})
            ...     moments.windows.refit(bank, temperature=0.05, fewer=True)
            ...     hits = moments.search(queries, k=5)
    """

    def __init__(self, items: GalleryStore, windows: GalleryStore) -> None:
        self.items, self.windows = items, windows

    @classmethod
    def create(cls, items: GalleryStore, location: Union[str, Path]) -> 'MomentStore':
        """No windows yet, open for writing, kept by the gallery's engine.

        Args:
            items: the gallery.
            location: its folder or URL.

        Raises:
            FileExistsError, FolderInUse, OSError: as of
                :func:`~mmvtr.gallery.store.opening.create_store`.
        """
        options = dict(engine=items.engine, model=items.model, about=items.about)
        return cls(items, create_store(beside(location), items.dim, **options))

    @classmethod
    def open(
        cls, items: GalleryStore, location: Union[str, Path], *, write: bool = False
    ) -> 'MomentStore':
        """Windows that are there.

        Args:
            items, location: as :meth:`create`.
            write: whether they may be changed from here.

        Raises:
            FileNotFoundError: there are none.
            FolderInUse, RuntimeError: as of :func:`~mmvtr.gallery.store.opening.open_store`.
            ValueError: they are of another model than the items.
        """
        found = cls(items, open_store(beside(location), write=write))
        if found.windows.model != items.model or found.windows.dim != items.dim:
            found.close()
            raise ValueError(f'{found.windows} is of another model than {items}: make it anew')
        return found

    def close(self) -> None:
        """Let others write windows; the gallery stays open."""
        self.windows.close()

    def __enter__(self) -> 'MomentStore':
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    # -- changes -----------------------------------------------------------------------------

    def put(self, windows: Mapping[str, Windows]) -> None:
        """Give items their windows, in the place of those that they have, as one change.

        A window gets the bias that the last refit of the windows gives it, and its item's path,
        sigma and metadata, which filters read.

        Args:
            windows: by id of an item of the gallery.

        Raises:
            ValueError: an id that is not there, no windows, one that ends before it starts, vectors
                of another width or number, a column of the gallery that is called like ours.
            PermissionError, OSError: as :meth:`~mmvtr.gallery.store.protocol.GalleryStore.add`.
        """
        owners = self.items.get(list(windows))
        types = self.items.types
        if {OWNER, ENTRY} & types.keys():
            raise ValueError(f'{self.items}: no column of a gallery with moments is called {OWNER}')
        rows, vectors = [], []
        for owner in owners:
            rows += _rows(owner, windows[owner.id])
            vectors.append(
                checked_vectors(windows[owner.id].vectors, self.items.dim, what=f'of {owner.id!r}')
            )
            if len(vectors[-1]) != len(windows[owner.id].starts):
                raise ValueError(f'{owner.id!r}: one vector a window expected')
        metadata = {name: [row[0].metadata.get(name) for row in rows] for name in types}
        metadata[OWNER] = [owner.id for owner, *_ in rows]
        metadata[ENTRY] = [owner.added for owner, *_ in rows]
        old: list[str] = []
        if self.windows.count():
            of = {OWNER: [owner.id for owner in owners]}
            old = self.windows.table(['id'], filter=of)[1]['id']
        self.windows.add(
            [_name(owner, number) for owner, number, *_ in rows],
            np.concatenate(vectors),
            paths=[owner.path for owner, *_ in rows],
            sigmas=[owner.sigma for owner, *_ in rows],
            starts=[start for *_, start, _ in rows],
            ends=[end for *_, end in rows],
            metadata=metadata,
            model=self.items.model,
            removing=old,
        )

    def sweep(self) -> int:
        """Remove windows whose item is gone or was replaced; returns how many.

        Raises:
            PermissionError, OSError: as :meth:`put`.
        """
        known = {*_entries(self.items, 'id', 'added')}
        names = self.windows.table(['id'])[1]['id']
        owners = _entries(self.windows, OWNER, ENTRY)
        gone = [name for name, owner in zip(names, owners) if owner not in known]
        if gone:
            self.windows.delete(gone)
        return len(gone)

    # -- answers -----------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """Ids of the items that have no windows, sorted."""
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
        """The k items with the best windows, best first, and of each the best window.

        It is exact if the search of the windows is.

        Args:
            queries, transform, exact, model: as
                :meth:`~mmvtr.gallery.store.protocol.GalleryStore.search`.
            k: 1 or more.
            filter: as there; ``id`` and ``added`` are the item's, ``start`` and ``end`` the
                window's.

        Returns:
            Q lists of hits.

        Raises:
            ValueError: as of :meth:`~mmvtr.gallery.store.protocol.GalleryStore.search`; no windows.
        """
        if type(k) is not int or k < 1:
            raise ValueError(f'k must be 1 or more, not {str(k)[:80]}')
        queries = checked_vectors(queries, self.items.dim, what='search')
        parsed(filter, self.items.types)  # refuses what does not fit
        names = {'id': OWNER, 'added': ENTRY}
        filter = {names.get(column, column): wanted for column, wanted in (filter or {}).items()}
        if not self.windows.count():
            raise ValueError(f'{self.windows} is empty: there are no moments')
        if any(
            column in self.items.types and column not in self.windows.types for column in filter
        ):
            return [[] for _ in queries]  # a column that no window has a value of
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
            wanted *= 2  # there are windows of items that are gone, or in quarantine


def beside(location: Union[str, Path]) -> str:
    """Where the windows of a gallery are, by its folder or URL."""
    return f'{location}.moments' if is_url(location) else str(Path(location, 'moments'))


def sliding(begin: float, end: float, length: float, step: float) -> list[tuple[float, float]]:
    """Starts and ends of windows over a video, in seconds; the last one ends with the video.

    Args:
        begin, end: of the video.
        length: of a window; a shorter video is one window.
        step: from one start to the next.

    Raises:
        ValueError: a length or step that is not positive, an end that is not behind the begin.
    """
    if not (length > 0 and step > 0 and end > begin):
        raise ValueError(f'no windows of {length} s, one every {step} s, from {begin} to {end} s')
    count = max(0, int(np.ceil((end - begin - length) / step - 1e-9)))
    spans = [(begin + step * i, begin + step * i + length) for i in range(count)]
    return [*spans, (max(begin, end - length), end)]


def _rows(owner: Item, windows: Windows) -> Iterator[tuple[Item, int, float, float]]:
    starts, ends = list(windows.starts), list(windows.ends)
    if not starts or len(starts) != len(ends) or None in starts + ends:
        raise ValueError(f'{owner.id!r}: one window or more expected, each with start and end')
    return ((owner, number, *span) for number, span in enumerate(zip(starts, ends)))


def _name(owner: Item, number: int) -> str:
    """Id of a window, of one length whatever the item is called."""
    entry = hashlib.sha256(f'{owner.added!r} {owner.id}'.encode()).hexdigest()[:32]
    return f'{entry}-{number}'


def _owner(window: Item) -> str:
    return window.metadata[OWNER]


def _belongs(hit: Hit, items: Mapping[str, Item]) -> bool:
    """Whether the item of a window is there, and is the one that the window was made of."""
    item = items.get(_owner(hit.item))
    return item is not None and item.added == hit.item.metadata[ENTRY]


def _told(hit: Hit, item: Item) -> MomentHit:
    window = hit.item
    return MomentHit(hit.score, hit.raw, item, window.start, window.end, window.bias)


def _entries(store: GalleryStore, name: str, entry: str) -> list[tuple[str, float]]:
    """Id and time of entry of each item, or of each window's item, those in quarantine too."""
    if not store.count():
        return []
    columns = store.table([name, entry])[1]
    return list(zip(columns[name], columns[entry]))
