"""A store on a Qdrant server: for galleries of more than one machine.

A store has collections ``NAME`` for the items, ``NAME.bank`` for the queries of its Debiaser, and
``NAME.state`` with one point, whose payload defines the valid state.  A change writes items or
biases that are not visible yet, and then that one point, so a reader sees the old state or the new
one. The next change removes leftovers of a killed change and of states before the last.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from mmvtr.arrays import Debiaser
from mmvtr.arrays.inputs import Geometry
from mmvtr.arrays.saved import content_of, text_of
from mmvtr.errors import UserError
from mmvtr_gallery.store.filters import Condition
from mmvtr_gallery.store.items import (
    Hit,
    Item,
    Rows,
    check_geometry,
    norms_of,
    refuse_several_norms,
    said_of_lengths,
)
from mmvtr_gallery.store.online import reservoir_of
from mmvtr_gallery.store.protocol import Fit, GalleryStore, How
from mmvtr_gallery.store.qdrant_points import (
    AS_POINTS,
    State,
    both_keys,
    columns_of,
    connected,
    debiaser_of,
    empty_state,
    is_seen,
    item_of,
    key_of,
    must,
    number_of,
    qdrant_models,
    row_of,
    undo_tag,
    visible_to,
    where_is,
    within,
)
from mmvtr_gallery.store.rerank import best_with_bias
from mmvtr_gallery.store.undoing import Change, Reversal, change_of, rows_of

#: Points per request.
BATCH = 500


class QdrantStore(GalleryStore):
    """A store on a Qdrant server; see :class:`~mmvtr_gallery.store.protocol.GalleryStore`.

    It needs qdrant-client.  There is no lock between machines: let only one process write.  A write
    is refused if another process has changed the store since this one last read it.
    """

    engine = 'qdrant'

    def __init__(self, client: Any, name: str, where: str, *, write: bool) -> None:
        super().__init__()
        self.client, self.name, self.where, self.writable = client, name, where, write
        self._state: State = {}
        self._fitted: tuple[Optional[str], Optional[Debiaser]] = None, None

    def __str__(self) -> str:
        return f'the store {self.where}'

    @classmethod
    def create(
        cls,
        location: str,
        dim: int,
        *,
        model: Optional[str] = None,
        about: Optional[Mapping[str, Any]] = None,
        online: Optional[Mapping[str, Any]] = None,
        geometry: Geometry = 'cosine',
        client: Any = None,
    ) -> 'QdrantStore':
        """Create an empty store, open for writing.

        Args:
            location: ``http://HOST:PORT/NAME``; with a ``client`` only the name.
            dim, model, about, online, geometry: see
                :meth:`~mmvtr_gallery.store.folder.FolderStore.create`.
            client: a QdrantClient, for example in embedded mode; default: a client of the URL.

        Raises:
            ConnectionError: the server does not answer.
            FileExistsError: a collection of that name exists.
            ValueError: a dim below 1, no name, unknown options in ``online``.
        """
        if type(dim) is not int or dim < 1:
            raise ValueError(f'dim must be 1 or more, not {str(dim)[:80]}')
        check_geometry(geometry)
        if online is not None:
            online = {'refit_every': None, **online}
            reservoir_of(dim, online)
        store = cls(*connected(location, client), write=True)
        store._filling = True
        with store._asked() as ask:
            if ask.collection_exists(store.name):
                raise FileExistsError(f'{store.where} is there already')
            models = qdrant_models()
            for suffix, width in (('.state', 1), ('.bank', dim), ('.queue', dim), ('', dim)):
                # A create that was killed has left all but the last of them.
                if ask.collection_exists(store.name + suffix):
                    ask.delete_collection(store.name + suffix)
                size = models.VectorParams(size=width, distance=models.Distance.DOT)
                if not suffix:
                    store._write(dict(empty_state(dim, model, about, online), geometry=geometry))
                ask.create_collection(store.name + suffix, vectors_config=size)
        store._open_queue()
        return store

    @classmethod
    def open(cls, location: str, *, write: bool = False, client: Any = None) -> 'QdrantStore':
        """Open an existing store.

        Raises:
            ConnectionError: the server does not answer.
            FileNotFoundError: it has no such store.
        """
        store = cls(*connected(location, client), write=write)
        with store._asked() as ask:
            there = [ask.collection_exists(f'{store.name}{x}') for x in ('', '.state', '.bank')]
        if not all(there):
            raise FileNotFoundError(f'{store.where} is not a store on that server')
        store._now()
        store._open_queue()
        return store

    def close(self) -> None:
        self.writable = False

    @property
    def dim(self) -> int:
        return self._state['dim']

    @property
    def model(self) -> Optional[str]:
        return self._state['model']

    @property
    def about(self) -> dict[str, Any]:
        return dict(self._state['about'])

    @property
    def types(self) -> dict[str, str]:
        return dict(self._now()['types'])

    @property
    def last_refit(self) -> Optional[dict[str, Any]]:
        return self._now()['refit']

    @property
    def version(self) -> int:
        return self._now()['commit']

    @property
    def geometry(self) -> Geometry:
        return self._state.get('geometry') or 'inner_product'

    @property
    def lengths_matter(self) -> Optional[str]:
        state = self._now()
        return None if state.get('geometry') else said_of_lengths(state['norms'])

    @property
    def debiaser(self) -> Optional[Debiaser]:
        state = self._now()
        return self._fitted_by(state['bank'], state['refit'])

    @property
    def _before(self) -> Optional[Fit]:
        before = self._now().get('before')  # stores of older versions have none
        if before is None:
            return None
        debiaser = self._fitted_by(before['bank'], before['refit'])
        return Fit(debiaser, before['refit'], before.get('calibration'))

    @property
    def _calibration(self) -> Optional[dict[str, Any]]:
        return self._now().get('calibration')

    def _keep_calibration(self, calibration: Optional[dict[str, Any]]) -> None:
        self._commit(self._collected(), calibration=calibration)

    @property
    def _quarantined(self) -> list[str]:
        return self._now().get('quarantined', [])

    def _keep_quarantined(self, ids: list[str], change: Change) -> None:
        old = self._collected()
        undo = dict(change._asdict(), tag=None, held=old.get('quarantined', []))
        rubbish = [tag for tag in [undo_tag(old)] if tag is not None]
        self._commit(old, quarantined=ids, undo=undo, rubbish=rubbish)

    @property
    def _held_before(self) -> list[str]:
        return self._state['undo']['held']

    def _fitted_by(self, bank: Optional[str], refit: Any) -> Optional[Debiaser]:
        """Return the Debiaser of a bank, by name; None for None."""
        if bank is None:
            return None
        if self._fitted[0] != bank:
            mine = must(where_is('_bank', bank))
            points = [*self._points(f'{self.name}.bank', mine, vectors=True)]
            points.sort(key=lambda point: point.payload['number'])
            self._fitted = bank, debiaser_of(points, self.geometry, refit, Path(self.where))
        return self._fitted[1]

    def index(self, *, candidates: int = 100, effort: int = 128) -> None:
        """Search with the server's HNSW graph from now on, and rescore ``candidates``.

        Before this call each search compares with every item.  Qdrant's embedded mode has no graph.

        Args:
            candidates: number of nearest items to rescore.
            effort: Qdrant's ``hnsw_ef``.

        Raises:
            ValueError: numbers below 1, fewer than 256 items, vectors of different norms.
            PermissionError, ConnectionError: it cannot be written.
        """
        self._check_writable()
        if min(candidates, effort) < 1:
            raise ValueError('index: candidates and effort must be 1 or more')
        with self._changing:
            state = self._collected()
            if state['count'] < 256:
                raise ValueError(
                    f'index: {state["count"]} items are searched one by one; an index needs 256'
                )
            refuse_several_norms(state['norms'], self)
            self._commit(state, index=dict(candidates=candidates, effort=effort))

    # -- states ------------------------------------------------------------------------------

    def _now(self) -> State:
        """Return the valid state, read from the server."""
        with self._asked() as ask:
            found = ask.retrieve(f'{self.name}.state', [0])
        if not found:
            raise FileNotFoundError(f'{self.where} has no state: it is not a store, or damaged')
        self._state = found[0].payload
        return self._state

    def _write(self, state: State) -> None:
        models = qdrant_models()
        with self._asked() as ask:
            ask.upsert(
                f'{self.name}.state', [models.PointStruct(id=0, vector=[1.0], payload=state)]
            )
        self._state = state

    def _commit(self, old: State, **changes: Any) -> None:
        if self._now()['commit'] != old['commit']:
            raise UserError(f'{self} has been changed by another process: nothing was changed')
        self._write({**old, 'commit': old['commit'] + 1, **changes})

    def _collected(self) -> State:
        """Return the valid state after removing everything that does not belong to it."""
        models, state = qdrant_models(), self._now()
        now, later = models.Range(lte=state['commit']), models.Range(gt=state['commit'])
        with self._asked() as ask:
            for key, which in (('_made', later), ('_gone', now)):
                ask.delete(self.name, models.FilterSelector(filter=must(within(key, which))))
            ask.delete_payload(self.name, ['_gone'], must(within('_gone', later)))
            kept = {state['bank'], (state.get('before') or {}).get('bank'), undo_tag(state)}
            for tag in state['rubbish']:
                ask.delete_payload(self.name, [tag], models.Filter(must=[]))
                if tag not in kept:
                    bank = models.FilterSelector(filter=must(where_is('_bank', tag)))
                    ask.delete(f'{self.name}.bank', bank)
        if state['rubbish']:
            state = {**state, 'rubbish': []}
            self._write(state)
        return state

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        """Yield the client; turn errors of the connection into ConnectionErrors."""
        from qdrant_client.http.exceptions import ApiException

        try:
            yield self.client
        except (ApiException, OSError) as error:
            if isinstance(error, (FileExistsError, FileNotFoundError)):
                raise
            reason = ' '.join(str(error).split())[:200]
            raise ConnectionError(f'{self.where} does not answer as it should: {reason}') from error

    # -- changes -----------------------------------------------------------------------------

    def _change(
        self,
        gone: Sequence[str],
        rows: Optional[Rows],
        biases: np.ndarray,
        reversal: Union[Reversal, Change, None],
    ) -> None:
        old = self._collected()
        undo, old = self._written_reversal(reversal, old)
        changes = dict(count=old['count'] - len(gone))
        if rows is not None:
            changes['norms'] = norms_of(rows.vectors, old['norms'])
            if old['index'] is not None:
                refuse_several_norms(changes['norms'], self)
        keys = self._keys(gone)
        for start in range(0, len(gone), BATCH):
            points = [keys[name] for name in gone[start : start + BATCH]]
            with self._asked() as ask:
                ask.set_payload(self.name, dict(_gone=old['commit'] + 1), points)
        if rows is not None:
            self._add_points(rows, biases, old, keys)
            highest = max(float(biases.max()), old['highest'] if old['count'] else -np.inf)
            types = {**old['types'], **rows.types}
            changes.update(highest=highest, types=types, count=changes['count'] + len(rows.ids))
        rubbish = [tag for tag in [undo_tag(old)] if tag is not None]
        self._commit(old, **changes, undo=undo, rubbish=rubbish)

    @property
    def last_change(self) -> Optional[Change]:
        state = self._now()
        if state.get('undo') is not None:
            return change_of(state['undo'])
        return None if state.get('before') is None else Change('refit')  # of an older version

    def _written_reversal(
        self, reversal: Union[Reversal, Change, None], old: State
    ) -> tuple[Optional[dict[str, Any]], State]:
        """Write what undoes a change, as points beside the banks.

        Returns:
            The state's entry for it, and a state that tells the next change about these points.
        """
        if reversal is None:
            return None, old
        if isinstance(reversal, Change):
            return dict(reversal._asdict(), tag=None), old
        tag, change, rows = f'_u{old["commit"] + 1}', reversal.change, reversal.removed
        old = {**old, 'rubbish': [tag]}
        self._write(old)
        payloads: list[dict[str, Any]] = [
            dict(added=reversal.added[start : start + BATCH])
            for start in range(0, len(reversal.added), BATCH)
        ]
        vectors = [[0.0] * self.dim] * len(payloads)
        if rows is not None:
            vectors += rows.vectors.tolist()
            columns = rows.columns.items()
            for row, name in enumerate(rows.ids):
                values = {column: values[row] for column, values in columns}
                payloads.append(dict(removed=dict(id=name, columns=values, types=rows.types)))
        self._write_points(tag, vectors, payloads)
        return dict(change._asdict(), tag=tag), old

    def _kept_reversal(self) -> Optional[Reversal]:
        tag = undo_tag(self._state)
        if tag is None:
            return None
        points = [*self._points(f'{self.name}.bank', must(where_is('_bank', tag)), vectors=True)]
        points.sort(key=lambda point: point.payload['number'])
        added = [name for point in points for name in point.payload.get('added', [])]
        gone = [point for point in points if 'removed' in point.payload]
        if not gone:
            return Reversal(added)
        said = [point.payload['removed'] for point in gone]
        names = said[0]['columns']
        columns = {name: [one['columns'][name] for one in said] for name in names}
        vectors = np.array([point.vector for point in gone], np.float32)
        ids = [one['id'] for one in said]
        return Reversal(added, rows_of(ids, vectors, columns, said[0]['types']))

    def _keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the key of each item that is in the store, by id."""
        return {item.payload['id']: item.id for item in self._found(ids, vectors=False)}

    def _add_points(
        self, rows: Rows, biases: np.ndarray, old: State, taken: Mapping[str, str]
    ) -> None:
        """Write points that are not visible yet, beside older ones of the same ids."""
        models = qdrant_models()
        for start in range(0, len(rows.ids), BATCH):
            points = []
            for i in range(start, min(start + BATCH, len(rows.ids))):
                name = rows.ids[i]
                payload = {column: values[i] for column, values in rows.columns.items()}
                payload.update(id=name, _made=old['commit'] + 1, _row=i)
                payload[old['bias']] = float(biases[i])
                key = next(key for key in both_keys(name) if key != taken.get(name))
                vector = rows.vectors[i].tolist()
                points.append(models.PointStruct(id=key, vector=vector, payload=payload))
            with self._asked() as ask:
                ask.upsert(self.name, points)

    def _switch(
        self, fit: Fit, biases: Iterable[tuple[np.ndarray, np.ndarray]], change: Change
    ) -> None:
        models, old = qdrant_models(), self._collected()
        tag = f'_b{old["commit"] + 1}'
        earlier = [(old.get('before') or {}).get('bank'), undo_tag(old)]
        old = {**old, 'rubbish': [tag]}
        self._write(old)  # so that the next change removes what a kill leaves
        highest = -np.inf
        for keys, values in biases:
            pairs = [*zip(keys.tolist(), values.tolist())]
            highest = max([highest, *values.tolist()])
            for start in range(0, len(pairs), BATCH):
                said = [
                    models.SetPayloadOperation(
                        set_payload=models.SetPayload(payload={tag: value}, points=[key])
                    )
                    for key, value in pairs[start : start + BATCH]
                ]
                with self._asked() as ask:
                    ask.batch_update_points(self.name, said)
        if fit.debiaser is not None:
            self._write_bank(fit.debiaser, tag)
        self._commit(
            old,
            bias=tag,
            bank=None if fit.debiaser is None else tag,
            highest=highest if old['count'] else 0.0,
            refit=fit.refit,
            calibration=fit.calibration,
            before=dict(bank=old['bank'], refit=old['refit'], calibration=old.get('calibration')),
            undo=dict(change._asdict(), tag=None),
            rubbish=[old['bias'], *(tag for tag in earlier if tag is not None)],
        )

    def _write_bank(self, debiaser: Debiaser, tag: str) -> None:
        held = content_of(debiaser)
        rows = held['rows'].tolist() if 'rows' in held else [None] * len(held['texts'])
        seen = held['bank_items'].tolist() if 'bank_items' in held else []
        said: list[dict[str, Any]] = [dict(row_bias=x) for x in rows] + [{} for _ in seen]
        said[0]['facts'] = text_of(debiaser, held)
        said[0]['chances'] = {x: y.tolist() for x, y in held.items() if x not in AS_POINTS}
        self._write_points(tag, held['texts'].tolist() + seen, said)

    def _write_points(self, tag: str, vectors: list[Any], payloads: list[dict[str, Any]]) -> None:
        """Write numbered points with a tag to the collection of banks."""
        models, rows = qdrant_models(), [*zip(vectors, payloads)]
        for start in range(0, len(rows), BATCH):
            points = [
                models.PointStruct(
                    id=key_of(f'{tag} {number}'),
                    vector=vector,
                    payload=dict(payload, _bank=tag, number=number),
                )
                for number, (vector, payload) in enumerate(rows[start : start + BATCH], start)
            ]
            with self._asked() as ask:
                ask.upsert(f'{self.name}.bank', points)

    def _persist(self) -> None:
        state = self._collected()
        if self._filling and (state.get('undo') or state.get('before')):
            tags = [(state.get('before') or {}).get('bank'), undo_tag(state)]
            rubbish = [tag for tag in tags if tag is not None]
            self._commit(state, undo=None, before=None, rubbish=rubbish)
        if self.online is None:
            return
        models, queries = qdrant_models(), self.online.queries()
        for start in range(0, len(queries), BATCH):
            points = [
                models.PointStruct(id=number, vector=vector, payload={})
                for number, vector in enumerate(queries[start : start + BATCH].tolist(), start)
            ]
            with self._asked() as ask:
                ask.upsert(f'{self.name}.queue', points)
        self._write({**self._now(), 'seen': self.online.seen})

    def keep_queries(self, online: Optional[Mapping[str, Any]]) -> None:
        """See :meth:`~mmvtr_gallery.store.folder.FolderStore.keep_queries`."""
        self._check_writable()
        with self._changing:
            old = self._collected()
            if online is not None:
                online = {'refit_every': None, **online}
                reservoir_of(self.dim, online)
            else:
                everything = qdrant_models().FilterSelector(filter=qdrant_models().Filter(must=[]))
                with self._asked() as ask:
                    ask.delete(f'{self.name}.queue', everything)
            self._commit(old, online=online, seen=old['seen'] if online else 0)
            self._open_queue()

    def _open_queue(self) -> None:
        online = self._state['online']
        self.online = self.refit_every = None
        if online is None or not self.writable:
            return
        self.online, self.refit_every = reservoir_of(self.dim, online), online['refit_every']
        points = sorted(self._points(f'{self.name}.queue', None, vectors=True), key=number_of)
        kept = np.array([point.vector for point in points], np.float32).reshape(-1, self.dim)
        self.online.restore(kept, self._state['seen'])

    # -- answers -----------------------------------------------------------------------------

    def _known(self, ids: Sequence[str]) -> set[str]:
        return {point.payload['id'] for point in self._found(ids, vectors=False)}

    def _fetch(self, ids: Sequence[str]) -> list[Item]:
        return [item_of(point, self._state) for point in self._found(ids, vectors=True)]

    def _found(self, ids: Sequence[str], *, vectors: bool) -> list[Any]:
        """Return the visible points of items, by id."""
        state, points = self._now(), []
        for start in range(0, len(ids), BATCH):
            keys = [key for name in ids[start : start + BATCH] for key in both_keys(name)]
            with self._asked() as ask:
                found = ask.retrieve(self.name, keys, with_vectors=vectors)
            points += [point for point in found if is_seen(point.payload, state)]
        return points

    def _listed(
        self, conditions: Sequence[Condition], columns: list[str]
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        state = self._now()
        vectors = 'vector' in columns
        points = [*self._points(self.name, visible_to(state, conditions), vectors=vectors)]
        names = {name: state['bias'] if name == 'bias' else name for name in columns}
        found = {name: [point.payload.get(key) for point in points] for name, key in names.items()}
        if vectors:
            found['vector'] = [np.array(point.vector, np.float32) for point in points]
        return [point.id for point in points], found

    def _count(self, conditions: Sequence[Condition]) -> int:
        state = self._now()
        if not conditions:
            return state['count']
        with self._asked() as ask:
            return ask.count(self.name, visible_to(state, conditions), exact=True).count

    def _search(self, queries: np.ndarray, k: int, how: How) -> list[list[Hit]]:
        state = self._now()
        where = visible_to(state, how.conditions)
        return [self._best(state, query, k, where, how.transform, how.exact) for query in queries]

    def _best(
        self, state: State, query: np.ndarray, k: int, where: Any, transform: bool, exact: bool
    ) -> list[Hit]:
        index = None if exact else state['index']
        models, points = qdrant_models(), []
        effort = None if index is None else index['effort']
        said = models.SearchParams(exact=index is None, hnsw_ef=effort)

        def nearest(m: int) -> tuple[np.ndarray, np.ndarray]:
            with self._asked() as ask:
                points[:] = ask.query_points(
                    self.name,
                    query=query.tolist(),
                    query_filter=where,
                    limit=m,
                    search_params=said,
                ).points
            raw = np.array([point.score for point in points], np.float32)
            return np.arange(len(points)), raw

        def biases(rows: np.ndarray) -> np.ndarray:
            return np.array([points[row].payload[state['bias']] for row in rows], np.float32)

        def places(rows: np.ndarray) -> np.ndarray:
            order = sorted(rows, key=lambda row: row_of(points[row]))
            return np.argsort(order)

        if transform:
            candidates = None if index is None else index['candidates']
            how = dict(highest=state['highest'], candidates=candidates)
            found = best_with_bias(nearest, biases, places, k, **how)
        else:
            how = dict(highest=0.0, candidates=None if index is None else k, first=k)
            found = best_with_bias(nearest, lambda rows: np.float32(0), places, k, **how)
        return [
            Hit(score, raw, item_of(points[row], state))
            for row, raw, score in zip(*(column.tolist() for column in found))
        ]

    def _batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        state, batch = self._now(), []
        for point in self._points(self.name, visible_to(state, []), vectors=True):
            batch.append(point)
            if len(batch) == BATCH:
                yield columns_of(batch, state['bias'])
                batch = []
        if batch:
            yield columns_of(batch, state['bias'])

    def _points(self, collection: str, where: Any, *, vectors: bool) -> Iterator[Any]:
        offset = None
        while True:
            with self._asked() as ask:
                points, offset = ask.scroll(
                    collection, where, limit=BATCH, offset=offset, with_vectors=vectors
                )
            yield from points
            if offset is None:
                return
