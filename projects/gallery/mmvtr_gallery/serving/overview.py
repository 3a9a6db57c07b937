"""Pages and statistics of a gallery: its items, and which are hubs or never found."""

from __future__ import annotations

import json
import threading
from collections import Counter, OrderedDict
from contextlib import contextmanager
from typing import Any, Callable, Hashable, Iterator, Mapping, NamedTuple, Optional

from mmvtr_gallery.serving.batching import Busy
from mmvtr_gallery.store import GalleryStore, Item
from mmvtr_gallery.store.occurrences import Occurrences

#: Columns that a page may be sorted by, besides metadata columns.
SORTS = ('id', 'start', 'end', 'sigma', 'added', 'bias')
#: Columns whose range :meth:`Overview.stats` reports.
RANGES = dict(start='float', end='float', sigma='float', added='float', bias='float')
MARKS = ('hub', 'never_found')
#: Most frequent values reported of a column of strings, and orders that are cached.
MOST_VALUES, KEPT = 50, 8
#: Requests that may wait for a running computation.
WAITING = 20


class Mark(NamedTuple):
    """How often an item is found.

    Attributes:
        found: queries with the item among their top k.
        raw: queries with the item among their top k without biases.
        kind: one of :data:`MARKS`; None: found about as often as others.
        why: a sentence that explains the kind; None without a kind.
    """

    found: int
    raw: int
    kind: Optional[str]
    why: Optional[str]


class Listed(NamedTuple):
    """The items of one page, the mark of each, and how many items match in all."""

    items: list[Item]
    marks: list[Optional[Mark]]
    total: int


class Overview:
    """Pages and statistics of a store, with expensive results cached per state of the store.

    Args:
        store: returns the current store.
    """

    def __init__(self, store: Callable[[], GalleryStore]) -> None:
        self._store = store
        self._kept: OrderedDict[tuple, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._places = threading.Semaphore(WAITING)

    def page(
        self,
        *,
        filter: Optional[Mapping[str, Any]] = None,
        mark: Optional[str] = None,
        sort: str = 'id',
        descending: bool = False,
        offset: int = 0,
        limit: int = 24,
    ) -> Listed:
        """Return items ``offset`` to ``offset + limit`` of the matches; missing values come last.

        Args:
            filter: see :meth:`~mmvtr_gallery.store.protocol.GalleryStore.search`.
            mark: one of :data:`MARKS`: only items with this mark.
            sort: one of :data:`SORTS`, a column of metadata, or ``'found'``.
            descending: largest values first.

        Raises:
            Busy: too many wait.
            ValueError: an invalid column or filter; marks for a store that knows no queries.
        """
        store = self._store()
        allowed = [*SORTS, *store.types, 'found']
        if sort not in allowed:
            raise ValueError(f'sort must be one of {", ".join(allowed)}, not {sort[:80]!r}'[:380])
        with self._turn():
            state = store.state
            known = self._occurrences(store, state)
            if known is None and (mark is not None or sort == 'found'):
                raise ValueError(
                    'how often items are found is not known: the gallery has had no refit, and '
                    'keeps no sample of served queries'
                )
            wanted = json.dumps([filter, mark, sort, descending], sort_keys=True)
            names = self._once(
                ('order', state, wanted), lambda: _order(store, known, *json.loads(wanted))
            )
        shown = names[offset : offset + limit]
        items = store.get(shown) if shown else []
        marks = [None if known is None else known.mark(item) for item in items]
        return Listed(items, marks, len(names))

    def stats(self) -> dict[str, Any]:
        """Return counts, columns and their values, the last change, and how evenly items are found.

        Raises:
            Busy: too many wait.
        """
        store = self._store()
        with self._turn():
            state = store.state
            known = self._occurrences(store, state)
            columns = self._once(('columns', state), lambda: _columns(store))
        last, sample = store.last_change, store.online
        return dict(
            items=store.count(),
            version=store.version,
            columns=columns,
            refit=store.last_refit,
            last_change=None if last is None else last._asdict(),
            sample=None if sample is None else _sample(sample),
            found=None if known is None else known.told(),
        )

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one caller compute at a time; raise Busy if too many wait."""
        if not self._places.acquire(blocking=False):
            raise Busy(f'{WAITING} requests wait for an overview already: try again later')
        try:
            with self._lock:
                yield
        finally:
            self._places.release()

    def _occurrences(self, store: GalleryStore, state: Hashable) -> Optional['Known']:
        sample = store.online
        # Without a refit the sample of served queries is used, again whenever its count has
        # doubled.
        grown = 0
        if sample is not None and store.debiaser is None:
            grown = sample.seen.bit_length()
        found = self._once(('found', state, grown), store.occurrences)
        return None if found is None else self._once(('known', state, grown), lambda: Known(found))

    def _once(self, key: tuple, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


class Known:
    """Occurrence counts of items (how many queries find them), and the resulting marks."""

    def __init__(self, found: Occurrences) -> None:
        self.found = found
        self._rows = {name: row for row, name in enumerate(found.ids)}
        self.hubs = found.found > max(found.bar, found.expected)
        self.never = found.found == 0

    def count(self, name: str) -> Optional[int]:
        """Return the number of queries that find an item; None: the item was added since."""
        row = self._rows.get(name)
        return None if row is None else int(self.found.found[row])

    def has(self, name: str, mark: str) -> bool:
        """Return whether an item has a mark of :data:`MARKS`."""
        row = self._rows.get(name)
        return row is not None and bool((self.hubs if mark == 'hub' else self.never)[row])

    def mark(self, item: Item) -> Optional[Mark]:
        """Return the mark of an item; None: the item was added since."""
        row = self._rows.get(item.id)
        if row is None:
            return None
        found, raw = int(self.found.found[row]), int(self.found.raw[row])
        if self.hubs[row]:
            return Mark(found, raw, 'hub', self._of_hub(found, raw, item.bias))
        if self.never[row]:
            return Mark(found, raw, 'never_found', self._of_never(row, raw, item.bias))
        return Mark(found, raw, None, None)

    def _of_hub(self, found: int, raw: int, bias: float) -> str:
        said = (
            f'among the {self._best} for {found} of {self.found.queries} queries, where an equal '
            f'share is {self.found.expected:.1f}'
        )
        if found == raw and not bias:
            return f'{said}; it has no bias that lowers it'
        return f'{said}; with raw scores it would be for {raw} (its bias is {bias:+.3f})'

    def _of_never(self, row: int, raw: int, bias: float) -> str:
        said = f'among the {self._best} for none of {self.found.queries} queries'
        if raw:
            return f'{said}; with raw scores it would be for {raw} (its bias is {bias:+.3f})'
        behind = max(float(self.found.behind[row]), 0.0)
        return f'{said}; at its closest, it is {behind:.3f} below the last of them'

    @property
    def _best(self) -> str:
        return 'best' if self.found.k == 1 else f'{self.found.k} best'

    def told(self) -> dict[str, Any]:
        """Return the summary for :meth:`Overview.stats`."""
        raw, debiased = self.found.skews()
        return dict(
            source=self.found.source,
            queries=self.found.queries,
            k=self.found.k,
            expected=self.found.expected,
            hubs=int(self.hubs.sum()),
            never_found=int(self.never.sum()),
            skewness_raw=raw,
            skewness=debiased,
        )


def _order(
    store: GalleryStore,
    known: Optional[Known],
    filter: Optional[Mapping[str, Any]],
    mark: Optional[str],
    sort: str,
    descending: bool,
) -> list[str]:
    """Return the ids of all items that match, sorted; ties by id."""
    columns = ['id'] if sort in ('id', 'found') else ['id', sort]
    _, found = store.table(columns, filter=filter)
    names = found['id']
    values = [known.count(name) for name in names] if sort == 'found' else found[columns[-1]]
    pairs = sorted(zip(names, values), key=_name)
    if mark is not None:
        pairs = [pair for pair in pairs if known.has(pair[0], mark)]
    there = [pair for pair in pairs if pair[1] is not None]
    there.sort(key=lambda pair: pair[1], reverse=descending)
    return [name for name, _ in there] + [name for name, value in pairs if value is None]


def _name(pair: tuple[str, Any]) -> str:
    return pair[0]


def _columns(store: GalleryStore) -> dict[str, Any]:
    """Return for each column its type, the number of missing values, and its values."""
    types = {**RANGES, **store.types}
    _, found = store.table(list(types))
    return {
        name: dict(
            type=kind, missing=sum(x is None for x in found[name]), **_values(found[name], kind)
        )
        for name, kind in types.items()
    }


def _values(column: list[Any], kind: str) -> dict[str, Any]:
    values = [x for x in column if x is not None]
    if kind in ('int', 'float'):
        return dict(min=min(values, default=None), max=max(values, default=None))
    counts = Counter(values)
    shown = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))[:MOST_VALUES]
    return dict(distinct=len(counts), values=[list(pair) for pair in shown])


def _sample(sample: Any) -> dict[str, int]:
    return dict(kept=len(sample), seen=sample.seen, capacity=sample.capacity)
