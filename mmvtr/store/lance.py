"""A store in LanceDB's files: one folder, filters, an approximate index, no server."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr.store.filters import Condition, as_sql, literal
from mmvtr.store.folder import FolderStore
from mmvtr.store.items import COLUMNS, Hit, Item, Rows, refuse_several_norms
from mmvtr.store.manifest import Manifest
from mmvtr.store.rerank import Found, best_with_bias

if TYPE_CHECKING:
    from lancedb.table import Table

#: Ids in one condition of SQL, and items that are read at a time.
IDS, BATCH = 1000, 8192
#: Vectors are padded with zeros to a multiple of this: product quantisation cuts them into parts.
MULTIPLE = 16
#: States that no reader can be at any more are removed after this long.
KEEP, NEVER = timedelta(hours=1), timedelta(days=36500)
#: Forms of the approximate index.
FORMS = ('ivf_flat', 'ivf_pq', 'ivf_sq', 'ivf_hnsw_sq')

_TABLE = 'items'


class _State(NamedTuple):
    """A valid state: a table at its version, and the biases by item number."""

    table: 'Table'
    biases: np.ndarray
    manifest: Manifest


class LanceStore(FolderStore):
    """See :class:`~mmvtr.store.protocol.GalleryStore`; needs lancedb.

    LanceDB keeps the vectors and what else is known of an item; the biases are a column in a file
    of its own, so that a refit writes four bytes an item.  A search takes the nearest by raw inner
    product and ranks them with their biases: without an index until nothing can be missing, with
    an index (:meth:`index`) among ``candidates``.
    """

    engine = 'lance'

    def index(
        self,
        form: str = 'ivf_flat',
        *,
        partitions: Optional[int] = None,
        probes: int = 16,
        candidates: int = 100,
    ) -> None:
        """Build the approximate index; items that are added later are searched one by one until
        :meth:`persist` takes them in.

        Its metric is L2, which ranks vectors of one norm as inner products do.

        Args:
            form: one of :data:`FORMS`.
            partitions: lists of the quantiser; default about the root of the number of items.
            probes: lists that a search visits.
            candidates: nearest items that a search ranks with their biases.

        Raises:
            ValueError: an unknown form, fewer than 256 items, vectors of different norms, numbers
                below 1.
            PermissionError, OSError: as :meth:`add`.
        """
        self._check_writable()
        with self._changing:
            manifest = self._manifest
            if form not in FORMS:
                raise ValueError(f'index: form must be one of {FORMS}, not {str(form)[:80]!r}')
            if min(partitions or 1, probes, candidates) < 1:
                raise ValueError('index: partitions, probes and candidates must be 1 or more')
            if manifest.count < 256:
                raise ValueError(
                    f'index: {manifest.count} items are searched one by one; an index begins at 256'
                )
            refuse_several_norms(manifest.norms, self)
            partitions = partitions or max(1, round(manifest.count**0.5))
            import lancedb.index as kinds

            kind = dict(
                ivf_flat=kinds.IvfFlat,
                ivf_pq=kinds.IvfPq,
                ivf_sq=kinds.IvfSq,
                ivf_hnsw_sq=kinds.HnswSq,
            )[form]
            pq = dict(num_sub_vectors=_padded(manifest.dim) // 8) if form == 'ivf_pq' else {}
            config = kind(distance_type='l2', num_partitions=partitions, **pq)
            with self._written() as table:
                table.create_index('vector', config=config)
            self._commit(
                items=self._table.version,
                index=dict(form=form, partitions=partitions, probes=probes, candidates=candidates),
            )

    # -- states ------------------------------------------------------------------------------

    def _begin(self, manifest: Manifest) -> None:
        import pyarrow as pa

        width = _padded(manifest.dim)
        schema = pa.schema(
            [
                pa.field('number', pa.int64()),
                pa.field('vector', pa.list_(pa.float32(), width)),
                *(pa.field(name, _arrow(kind)) for name, kind in COLUMNS.items()),
            ]
        )
        self._manifest = manifest
        # What a create that was killed before its commit has left is no store.
        mode = 'overwrite' if (self.folder / f'{_TABLE}.lance').exists() else 'create'
        self._table = self._connect().create_table(_TABLE, schema=schema, mode=mode)
        self._commit(items=self._table.version)

    def _connect(self) -> Any:
        try:
            import lancedb
        except ImportError:
            raise ImportError('a store of LanceDB needs it: pip install -e ".[store]"') from None
        return lancedb.connect(str(self.folder))

    def _load(self, manifest: Manifest, biases: np.ndarray) -> _State:
        table = self._connect().open_table(_TABLE)
        table.checkout(manifest.items)
        return _State(table, biases, manifest)

    def _recover(self) -> None:
        self._table = self._connect().open_table(_TABLE)
        self._roll_back()

    def _roll_back(self) -> None:
        """Take away what an unfinished change has written after the valid version."""
        if self._table.version != self._manifest.items:
            self._table.restore(self._manifest.items)
            self._commit(items=self._table.version)

    @contextmanager
    def _written(self) -> Iterator['Table']:
        """The table for changes; what LanceDB says of a failure becomes one sentence."""
        try:
            self._roll_back()
            yield self._table
        except (OSError, RuntimeError, ValueError) as error:
            reason = ' '.join(str(error).split())
            raise OSError(f'{self}: nothing was changed, writing failed: {reason[:200]}') from error

    # -- changes -----------------------------------------------------------------------------

    def _insert(self, rows: Rows, biases: np.ndarray) -> None:
        import pyarrow as pa

        old = self._manifest
        changes = self._append(rows, biases)
        if old.index is not None:
            refuse_several_norms(changes['norms'], self)
        width = _padded(old.dim)
        vectors = np.zeros((len(rows.ids), width), np.float32)
        vectors[:, : old.dim] = rows.vectors
        types = {**COLUMNS, **changes['types']}
        columns = dict(
            number=pa.array(np.arange(old.next, old.next + len(rows.ids))),
            id=pa.array(rows.ids, pa.string()),
            vector=pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width),
        )
        for name, values in rows.columns.items():
            if name in types:  # metadata that are None for all items have no type yet
                columns[name] = pa.array(values, _arrow(types[name]))
        with self._written() as table:
            there = set(table.schema.names)
            new = [pa.field(name, _arrow(types[name])) for name in types if name not in there]
            if new:
                table.add_columns(pa.schema(new))
            for field in table.schema:
                if field.name not in columns:
                    columns[field.name] = pa.nulls(len(rows.ids), field.type)
            table.add(pa.table({name: columns[name] for name in table.schema.names}))
        self._commit(items=self._table.version, **changes)

    def _remove(self, ids: Sequence[str]) -> None:
        with self._written() as table:
            for start in range(0, len(ids), IDS):
                table.delete(_among(ids[start : start + IDS]))
        self._commit(items=self._table.version, count=self._manifest.count - len(ids))

    def _persist(self) -> None:
        super()._persist()
        with self._written() as table:
            table.optimize(cleanup_older_than=NEVER)  # the valid version may be old
        self._commit(items=self._table.version)
        self._table.optimize(cleanup_older_than=KEEP)
        if self._table.version != self._manifest.items:
            self._commit(items=self._table.version)

    # -- answers -----------------------------------------------------------------------------

    def _known(self, ids: Sequence[str]) -> set[str]:
        table = self._now().table
        if len(ids) <= IDS:
            return set(_rows(table, ['id'], _among(ids))['id'])
        wanted, found = set(ids), set()
        for batch in table.search().select(['id']).to_batches(BATCH):
            found |= wanted.intersection(batch['id'].to_pylist())
        return found

    def _fetch(self, ids: Sequence[str]) -> list[Item]:
        state = self._now()
        names, items = _names(state), []
        for start in range(0, len(ids), IDS):
            where = _among(ids[start : start + IDS])
            found = state.table.search().where(where).select([*names, 'vector']).limit(IDS)
            items += _items(found.to_arrow(), state, vectors=True).values()
        return items

    def _count(self, conditions: Sequence[Condition]) -> int:
        state = self._now()
        return state.table.count_rows(as_sql(conditions)) if conditions else state.manifest.count

    def _search(
        self,
        queries: np.ndarray,
        k: int,
        conditions: Sequence[Condition],
        transform: bool,
        exact: bool,
    ) -> list[list[Hit]]:
        state, where = self._now(), as_sql(conditions)
        return [_best(state, query, k, where, transform, exact) for query in queries]

    def _batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        state = self._now()
        dim = state.manifest.dim
        for batch in state.table.search().select(['number', 'vector']).to_batches(BATCH):
            if len(batch):
                yield batch['number'].to_numpy(), _matrix(batch['vector'])[:, :dim].copy()

    def _now(self) -> _State:
        self._current()
        return self._state


def _best(
    state: _State, query: np.ndarray, k: int, where: Optional[str], transform: bool, exact: bool
) -> list[Hit]:
    """The hits of one query [D]."""
    index = None if exact else state.manifest.index
    width = _padded(len(query))
    padded = np.zeros(width, np.float32)
    padded[: len(query)] = query
    square = float(query @ query)
    places: dict[int, int] = {}  # item number -> row

    def nearest(m: int) -> tuple[np.ndarray, np.ndarray]:
        search = state.table.search(padded).limit(m).select(['number', '_distance'])
        search = search.with_row_id(True)
        if index is None:
            search = search.distance_type('dot').bypass_vector_index()
        else:
            search = search.distance_type('l2').nprobes(index['probes'])
            if index['form'] != 'ivf_flat':
                search = search.refine_factor(1)  # distances of the vectors, not of their codes
        if where is not None:
            search = search.where(where, prefilter=True)
        found = search.to_arrow()
        numbers, distances = found['number'].to_numpy(), found['_distance'].to_numpy()
        places.update(zip(numbers.tolist(), found['_rowid'].to_pylist()))
        if index is None:
            return numbers, (1 - distances).astype(np.float32)
        norm = state.manifest.norms[1]
        return numbers, ((square + norm**2 - distances) / 2).astype(np.float32)

    candidates = None if index is None else index['candidates']
    if transform:
        highest = state.manifest.highest
        found = best_with_bias(
            nearest, state.biases.__getitem__, k, highest=highest, candidates=candidates
        )
    else:
        keys, raw = nearest(k)
        found = Found(keys, raw, raw)
    if not len(found.keys):
        return []
    rows = state.table.take_row_ids([places[key] for key in found.keys.tolist()])
    items = _items(rows.select(_names(state)).to_arrow(), state)
    return [
        Hit(score, raw, items[key])
        for key, raw, score in zip(*(column.tolist() for column in found))
    ]


def _names(state: _State) -> list[str]:
    return ['number', *COLUMNS, *state.manifest.types]


def _rows(table: 'Table', names: list[str], where: str) -> dict[str, list]:
    return table.search().where(where).select(names).limit(IDS).to_arrow().to_pydict()


def _items(found: Any, state: _State, *, vectors: bool = False) -> dict[int, Item]:
    """Items from rows of Arrow, by number."""
    rows = found.drop_columns(['vector']) if vectors else found
    matrix = _matrix(found['vector'].combine_chunks()) if vectors else None
    items = {}
    for i, row in enumerate(rows.to_pylist()):
        bias = float(state.biases[row['number']])
        metadata = {name: row[name] for name in state.manifest.types}
        vector = None if matrix is None else matrix[i, : state.manifest.dim].copy()
        items[row['number']] = Item(*(row[name] for name in COLUMNS), bias, metadata, vector)
    return items


def _matrix(vectors: Any) -> np.ndarray:
    """float32 [n, width] of Arrow's lists of one length."""
    width = vectors.type.list_size
    return vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(vectors), width)


def _among(ids: Sequence[str]) -> str:
    return f'id IN ({", ".join(map(literal, ids))})'


def _arrow(kind: str) -> Any:
    import pyarrow as pa

    return dict(str=pa.string(), float=pa.float64(), int=pa.int64(), bool=pa.bool_())[kind]


def _padded(dim: int) -> int:
    return -(-dim // MULTIPLE) * MULTIPLE
