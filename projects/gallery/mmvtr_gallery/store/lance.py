"""A store in LanceDB's files: one folder, filters, an approximate index, no server."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Optional, Sequence, Union

import numpy as np

from mmvtr.storage import file_digest
from mmvtr_gallery.store.filters import Condition, as_sql, literal
from mmvtr_gallery.store.folder import FolderStore
from mmvtr_gallery.store.items import COLUMNS, Hit, Item, Rows, refuse_several_norms
from mmvtr_gallery.store.manifest import Manifest, refuse_link
from mmvtr_gallery.store.protocol import How
from mmvtr_gallery.store.rerank import Found, best_with_bias
from mmvtr_gallery.store.undoing import Change, Reversal

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

#: Where LanceDB keeps which rows are deleted.
_DELETED = '_deletions'


class _State(NamedTuple):
    """A valid state: a table at its version, and the biases by item number."""

    table: 'Table'
    biases: np.ndarray
    manifest: Manifest


class LanceStore(FolderStore):
    """See :class:`~mmvtr_gallery.store.protocol.GalleryStore`; needs lancedb.

    LanceDB keeps the vectors and what else is known of an item; the biases are a column in a file
    of its own, so that a refit writes four bytes an item.  A search takes the nearest by raw inner
    product and ranks them with their biases: without an index until nothing can be missing, with
    an index (:meth:`index`) among ``candidates``.
    """

    engine = 'lance'

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._sound: set[tuple[str, str]] = set()  # files and digests that were seen to hold

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
            options = self._index_options(form, FORMS, partitions, probes, candidates)
            refuse_several_norms(manifest.norms, self)
            import lancedb.index as kinds

            kind = dict(
                ivf_flat=kinds.IvfFlat,
                ivf_pq=kinds.IvfPq,
                ivf_sq=kinds.IvfSq,
                ivf_hnsw_sq=kinds.HnswSq,
            )[form]
            pq = dict(num_sub_vectors=_padded(manifest.dim) // 8) if form == 'ivf_pq' else {}
            config = kind(distance_type='l2', num_partitions=options['partitions'], **pq)
            with self._written() as table:
                table.create_index('vector', config=config)
            self._commit(items=self._table.version, index=options)

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
        mode = 'overwrite' if (self.folder / manifest.table).exists() else 'create'
        name = _name(manifest)
        self._table = self._connect().create_table(name, schema=schema, mode=mode)
        self._commit(items=self._table.version)

    def _connect(self) -> Any:
        try:
            import lancedb
        except ImportError:
            raise ImportError(
                "a store of LanceDB needs it: pip install -e 'projects/gallery[store]'"
            ) from None
        return lancedb.connect(str(self.folder))

    def _load(self, manifest: Manifest, biases: np.ndarray) -> _State:
        self._verify(manifest)
        with self._read(manifest) as table:
            table.checkout(manifest.items)
        return _State(table, biases, manifest)

    @contextmanager
    def _read(self, manifest: Manifest) -> Iterator['Table']:
        """A table of its own; what LanceDB says of a damaged file becomes one sentence."""
        connection = self._connect()
        try:
            yield connection.open_table(_name(manifest))
        except (OSError, RuntimeError, ValueError) as error:
            if not (self.folder / manifest.table).is_dir():
                raise FileNotFoundError(f'{self}: {manifest.table} is missing') from error
            reason = ' '.join(str(error).split())
            raise RuntimeError(
                f'{self}: {manifest.table} cannot be read, it is damaged: {reason[:200]}; export '
                'the gallery again'
            ) from error

    def _verify(self, manifest: Manifest) -> None:
        """See that LanceDB's files are those that were written; each is read once."""
        for name, digest in manifest.digests.items():
            if not name.startswith(f'{manifest.table}/') or (name, digest) in self._sound:
                continue
            path = self.folder / name
            refuse_link(path)
            if not path.is_file() and path.parent.name == _DELETED:
                continue  # of an earlier version, and removed with it
            if self._verified and file_digest(path) != digest:
                raise RuntimeError(
                    f'{path} is damaged: its bytes do not have the SHA-256 that it was written '
                    'with; export the gallery again'
                )
            self._sound.add((name, digest))

    def _digests(self, manifest: Manifest) -> dict[str, str]:
        """SHA-256 of all that a version is made of; only what is new is read."""
        found = super()._digests(manifest)
        names = _files(self.folder, Path(manifest.table), manifest.items)
        for name in names:
            found[name] = manifest.digests.get(name) or file_digest(self.folder / name)
        self._sound = {(name, found[name]) for name in names}
        return found

    def _recover(self) -> None:
        for path in (self.folder / self._manifest.table).rglob('*'):
            refuse_link(path)  # or LanceDB would write where it leads
        with self._read(self._manifest) as table:
            self._table = table
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

    def _change(
        self,
        gone: Sequence[str],
        rows: Optional[Rows],
        biases: np.ndarray,
        reversal: Union[Reversal, Change, None],
    ) -> None:
        old, changes = self._manifest, {}
        if rows is not None:
            changes = self._append(rows, biases)
            if old.index is not None:
                refuse_several_norms(changes['norms'], self)
        with self._written() as table:
            for start in range(0, len(gone), IDS):
                table.delete(_among(gone[start : start + IDS]))
            if rows is not None:
                self._add_rows(table, rows, changes['types'])
        changes['count'] = changes.get('count', old.count) - len(gone)
        changes['undo'] = self._written_reversal(reversal)
        self._commit(items=self._table.version, **changes)

    def _add_rows(self, table: 'Table', rows: Rows, metadata: dict[str, str]) -> None:
        """Write rows into the table, whose columns become those of the metadata, too."""
        import pyarrow as pa

        old, count = self._manifest, len(rows.ids)
        width, types = _padded(old.dim), {**COLUMNS, **metadata}
        vectors = np.zeros((count, width), np.float32)
        vectors[:, : old.dim] = rows.vectors
        columns = dict(
            number=pa.array(np.arange(old.next, old.next + count)),
            id=pa.array(rows.ids, pa.string()),
            vector=pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width),
        )
        for name, values in rows.columns.items():
            if name in types:  # metadata that are None for all items have no type yet
                columns[name] = pa.array(values, _arrow(types[name]))
        there = set(table.schema.names)
        new = [pa.field(name, _arrow(types[name])) for name in types if name not in there]
        if new:
            table.add_columns(pa.schema(new))
        for field in table.schema:
            if field.name not in columns:
                columns[field.name] = pa.nulls(count, field.type)
        table.add(pa.table({name: columns[name] for name in table.schema.names}))

    def _persist(self) -> None:
        super()._persist()
        if self._joint:
            return  # versions of before are valid until the end, and all is on disk
        with self._written() as table:
            table.optimize(cleanup_older_than=NEVER)  # the valid version may be old
        self._commit_version()
        self._table.optimize(cleanup_older_than=KEEP)
        self._commit_version()

    def _commit_version(self) -> None:
        """Make the table's newest version valid, if it is not."""
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

    def _listed(
        self, conditions: Sequence[Condition], columns: list[str]
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        state = self._now()
        names = ['number', *(name for name in columns if name != 'bias')]
        search = state.table.search().select(names)
        where = as_sql(conditions)
        found: dict[str, list[Any]] = {name: [] for name in names}
        for batch in (search if where is None else search.where(where)).to_batches(BATCH):
            for name in names:
                if name != 'vector':
                    found[name] += batch[name].to_pylist()
                elif len(batch):
                    found[name] += [*_matrix(batch[name])[:, : state.manifest.dim].copy()]
        if 'bias' in columns:
            found['bias'] = state.biases[found['number']].tolist() if found['number'] else []
        return found['number'], {name: found[name] for name in columns}

    def _count(self, conditions: Sequence[Condition]) -> int:
        state = self._now()
        return state.table.count_rows(as_sql(conditions)) if conditions else state.manifest.count

    def _search(self, queries: np.ndarray, k: int, how: How) -> list[list[Hit]]:
        state, where = self._now(), as_sql(how.conditions)
        return [_best(state, query, k, where, how.transform, how.exact) for query in queries]

    def _batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        state = self._now()
        dim = state.manifest.dim
        for batch in state.table.search().select(['number', 'vector']).to_batches(BATCH):
            if len(batch):
                numbers = batch['number'].to_numpy()
                yield numbers, _matrix(batch['vector'])[:, :dim].copy(), state.biases[numbers]

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


def _name(manifest: Manifest) -> str:
    """What LanceDB calls the table."""
    return manifest.table.removesuffix('.lance')


def _files(folder: Path, table: Path, version: int) -> list[str]:
    """Files, as named from ``folder``, that a version of a table is made of.

    The version names its data files and indices.  Of what is deleted it has numbers: all such files
    that are there are meant, also those that only earlier versions read.
    """
    # LanceDB counts versions down, so that the newest comes first in a list of names.
    names = (
        table / '_versions' / f'{x}.manifest' for x in (f'{2**64 - 1 - version:020d}', version)
    )
    head = next(name for name in names if (folder / name).is_file())
    said = (folder / head).read_bytes()
    files = [head, *(table / _DELETED / path.name for path in _entries(folder / table / _DELETED))]
    files += [
        table / 'data' / path.name
        for path in _entries(folder / table / 'data')
        if path.name.encode() in said
    ]
    for index in _entries(folder / table / '_indices'):
        if uuid.UUID(index.name).bytes in said:
            files += [table / '_indices' / index.name / path.name for path in index.iterdir()]
    return sorted(map(str, files))


def _entries(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.is_dir() else []


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
