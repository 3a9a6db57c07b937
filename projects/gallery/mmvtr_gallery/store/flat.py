"""A store in memory, searched exactly by FAISS, and the approximate forms that FAISS has."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch

from mmvtr.storage import read_tensors, write_tensors
from mmvtr_gallery.store.biases import append_biases
from mmvtr_gallery.store.columns import Columns
from mmvtr_gallery.store.filters import Condition
from mmvtr_gallery.store.folder import FolderStore
from mmvtr_gallery.store.items import COLUMNS, Hit, Item, Rows, norms_of
from mmvtr_gallery.store.lifted import FORMS, WITHOUT_BIAS, LiftedIndex, among, load_faiss
from mmvtr_gallery.store.manifest import Manifest
from mmvtr_gallery.store.protocol import How
from mmvtr_gallery.store.refits import Fit
from mmvtr_gallery.store.undoing import Change, Reversal

BATCH = 65536
#: Items left out of a search that looks for so many more instead, and drops them.
FEW = 100


class _State(NamedTuple):
    """All items as arrays and lists of N, in the order in which they were added."""

    vectors: np.ndarray  # float32 [N, D]
    biases: np.ndarray  # float32 [N]
    columns: dict[str, list]
    coded: Columns  # the same
    exact: Any  # faiss.IndexFlatIP over [v, b]
    lifted: Optional[LiftedIndex]


class FlatStore(FolderStore):
    """See :class:`~mmvtr_gallery.store.protocol.GalleryStore`; needs faiss.

    The bias of an item is one more dimension of its vector in memory.  Changes are in memory alone
    until :meth:`persist` writes them, all at once; vectors are written only if they changed.
    """

    engine = 'faiss'
    #: What takes the last change of items back, until it is written.
    _unwritten: Optional[Reversal] = None

    def index(
        self,
        form: str = 'l2',
        *,
        partitions: Optional[int] = None,
        probes: int = 16,
        candidates: int = 100,
    ) -> None:
        """Build an approximate index, which follows all later changes.

        Args:
            form: one of :data:`~mmvtr_gallery.store.lifted.FORMS`.
            partitions: lists of the quantiser; default about the root of the number of items.
            probes: lists that a search visits.
            candidates: items of these lists whose scores are then made exactly.

        Raises:
            ValueError: an unknown form, fewer than 256 items, numbers below 1.
            PermissionError: the store was opened for reading.
        """
        self._check_writable()
        with self._changing:
            options = self._index_options(form, FORMS, partitions, probes, candidates)
            state = self._state
            lifted = LiftedIndex(state.vectors, state.biases, options)
            self._take_state(state._replace(lifted=lifted), index=options)

    # -- states ------------------------------------------------------------------------------

    def _begin(self, manifest: Manifest) -> None:
        self._manifest, self._written = manifest, None
        self._state = self._made(
            np.zeros((0, manifest.dim), np.float32),
            np.zeros(0, np.float32),
            {name: [] for name in COLUMNS},
            None,
        )
        self._persist()

    def _recover(self) -> None:
        pass  # what a killed process left is swept

    def _take(self, manifest: Manifest) -> None:
        super()._take(manifest)
        self._written = manifest

    def _load(self, manifest: Manifest, biases: np.ndarray) -> _State:
        path = self.folder / manifest.items
        tensors = read_tensors(path, kind='items of a store')
        try:
            columns = json.loads(bytes(tensors['text'].numpy()))
            vectors = tensors['vectors'].float().numpy()
            lengths = {len(columns[name]) for name in [*COLUMNS, *manifest.types]}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RuntimeError(f'{path} is damaged, or holds no items of a store') from error
        if vectors.shape != (manifest.count, manifest.dim) or lengths != {manifest.count}:
            raise RuntimeError(f'{self}: {manifest.items} is not of its manifest: it is damaged')
        return self._made(vectors, np.array(biases), columns, manifest.index)

    def _made(
        self,
        vectors: np.ndarray,
        biases: np.ndarray,
        columns: dict[str, list],
        options: Optional[dict[str, Any]],
        lifted: Optional[LiftedIndex] = None,
    ) -> _State:
        exact = load_faiss().IndexFlatIP(vectors.shape[1] + 1)
        for start in range(0, len(vectors), BATCH):
            part = slice(start, start + BATCH)
            exact.add(np.column_stack((vectors[part], biases[part])))
        if lifted is None and options is not None and len(vectors) >= options['partitions']:
            lifted = LiftedIndex(vectors, biases, options)
        return _State(vectors, biases, columns, Columns(columns), exact, lifted)

    def _commit(self, **changes: Any) -> None:
        """In memory alone, until all of it is written."""
        self._manifest = replace(self._manifest, commit=self._manifest.commit + 1, **changes)

    def _take_state(self, state: _State, **changes: Any) -> None:
        """Take a new state."""
        self._commit(**changes)
        self._state = state

    def _persist(self) -> None:
        super()._persist()
        old, new, state = self._written, self._manifest, self._state
        if new == old:
            return
        if new.items is None:
            new = replace(new, items=f'items-{new.commit}.safetensors')
            text = np.frombuffer(json.dumps(state.columns).encode(), np.uint8)
            tensors = dict(
                vectors=torch.from_numpy(state.vectors), text=torch.from_numpy(text.copy())
            )
            write_tensors(tensors, self.folder / new.items)
        if self._unwritten is not None:
            new = replace(new, undo=self._written_reversal(self._unwritten))
        name = f'biases-{new.commit}.f32'
        digest = append_biases(self.folder / name, 0, state.biases)
        new = replace(new, biases=name, digests={**new.digests, name: digest})
        new = replace(new, digests=self._digests(new))
        self._make_valid(new)
        self._manifest, self._written, self._unwritten = new, new, None
        self._sweep()

    @contextmanager
    def kept(self) -> Iterator['FlatStore']:
        """See :meth:`~mmvtr_gallery.store.protocol.GalleryStore.kept`."""
        with self._changing:
            mark = self._mark()
            try:
                yield self
                self.persist()
            except BaseException:
                if self._manifest is not self._written:
                    self._return_to(mark)
                raise

    def _mark(self) -> Any:
        return super()._mark(), self._unwritten, self._written

    def _return_to(self, mark: Any) -> None:
        manifest, state = self._manifest, self._state
        general, self._unwritten, self._written = mark
        super()._return_to(general)
        if self._manifest is not manifest or self._state is not state:
            old = self._state  # its index may have grown
            parts = old.vectors, old.biases, old.columns
            self._state = self._made(*parts, self._manifest.index)

    # -- changes -----------------------------------------------------------------------------

    def _change(
        self,
        gone: Sequence[str],
        rows: Optional[Rows],
        biases: np.ndarray,
        reversal: Union[Reversal, Change, None],
    ) -> None:
        types = dict(self._manifest.types)
        state = self._without(gone) if gone else self._state
        if rows is not None:
            types.update(rows.types)
            state = self._grown(state, rows, biases, types)
        count = len(state.vectors)
        undo = None
        if reversal is not None:
            change = reversal if isinstance(reversal, Change) else reversal.change
            undo = dict(kind=change.kind, items=change.items, file=None)
        self._take_state(state, items=None, count=count, next=count, types=types, undo=undo)
        self._unwritten = reversal if isinstance(reversal, Reversal) else None

    def _kept_reversal(self) -> Optional[Reversal]:
        return self._unwritten or super()._kept_reversal()

    def _grown(self, old: _State, rows: Rows, biases: np.ndarray, types: dict[str, str]) -> _State:
        columns, count = {}, len(old.vectors)
        for name in [*COLUMNS, *types]:
            before = old.columns.get(name) or [None] * count
            new = rows.ids if name == 'id' else rows.columns.get(name) or [None] * len(rows.ids)
            columns[name] = before + new
        vectors = np.concatenate((old.vectors, rows.vectors))
        both = np.concatenate((old.biases, biases))
        old.exact.add(np.column_stack((rows.vectors, biases)))
        lifted = old.lifted
        if lifted is not None and not lifted.add(rows.vectors, biases):
            lifted = LiftedIndex(vectors, both, self._manifest.index)
        return _State(vectors, both, columns, Columns(columns), old.exact, lifted)

    def _without(self, ids: Sequence[str]) -> _State:
        old, gone = self._state, set(ids)
        keep = [row for row, name in enumerate(old.columns['id']) if name not in gone]
        columns = {name: [values[row] for row in keep] for name, values in old.columns.items()}
        return self._made(old.vectors[keep], old.biases[keep], columns, self._manifest.index)

    def _switch(self, fit: Fit, biases: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        new = np.zeros(self._manifest.count, np.float32)
        for keys, values in biases:
            new[keys] = values
        old, index = self._state, self._manifest.index
        kept = old.lifted if index is not None and index['form'] in WITHOUT_BIAS else None
        state = self._made(old.vectors, new, old.columns, index, kept)
        # Its file belongs to no state until this one is written.
        self._take_state(state, **self._written_fit(fit))
        self._debiaser, self._unwritten = fit.debiaser, None

    # -- answers -----------------------------------------------------------------------------

    def _lengths(self) -> Optional[list[float]]:
        vectors = self._state.vectors
        return norms_of(vectors, None) if len(vectors) else None

    def _known(self, ids: Sequence[str]) -> set[str]:
        return self._now().coded.known('id', ids)

    def _fetch(self, ids: Sequence[str]) -> list[Item]:
        state, types = self._now(), self._manifest.types
        rows = state.coded.rows('id', ids)
        return [_item(state, row, types)._replace(vector=state.vectors[row].copy()) for row in rows]

    def _listed(
        self, conditions: Sequence[Condition], columns: list[str]
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        state = self._now()
        keys = range(len(state.vectors))
        if conditions:
            keys = np.flatnonzero(state.coded.mask(conditions)).tolist()
        said = dict(state.columns, vector=state.vectors)
        found = {name: [said[name][row] for row in keys] for name in columns if name != 'bias'}
        if 'bias' in columns:
            found['bias'] = state.biases[list(keys)].tolist()
        return list(keys), found

    def _count(self, conditions: Sequence[Condition]) -> int:
        state = self._now()
        if not conditions:
            return len(state.vectors)
        return int(state.coded.mask(conditions).sum())

    def _search(self, queries: np.ndarray, k: int, how: How) -> list[list[Hit]]:
        state, types, found = self._found(queries, k, how)
        return [_hits(state, types, *one, how.transform) for one in found]

    def _leaders(self, query: np.ndarray, m: int, column: str, how: How) -> tuple[list[Hit], int]:
        state, types, [(scores, rows)] = self._found(query, m, how)
        firsts: dict[Any, int] = {}
        for place, row in enumerate(rows.tolist()):
            value = state.columns[column][row]
            if value is not None:
                firsts.setdefault(value, place)
        first = list(firsts.values())
        return _hits(state, types, scores[first], rows[first], how.transform), len(rows)

    def _found(
        self, queries: np.ndarray, k: int, how: How
    ) -> tuple[_State, dict[str, str], list[tuple[np.ndarray, np.ndarray]]]:
        """The state, its types, and of each query scores and rows of the items found."""
        with self._changing:  # an add grows what is searched
            state, types = self._now(), self._manifest.types
            allowed = state.coded.mask(how.conditions) if how.conditions else None
            count = len(state.vectors)
            there = count if allowed is None else int(np.count_nonzero(allowed))
            most = min(k, there)
            if not most:
                none = np.zeros(0, np.float32), np.zeros(0, np.int64)
                return state, types, [none for _ in queries]
            lifted = state.lifted
            if how.exact or lifted is None or count - there > lifted.most_left_out:
                found = self._exactly(state, queries, most, allowed, how.transform)
            else:
                items = state.vectors, state.biases
                chosen = dict(allowed=allowed, transform=how.transform)
                found = lifted.search(queries, most, *items, **chosen)
        return state, types, [(scores[at >= 0], at[at >= 0]) for scores, at in zip(*found)]

    def _exactly(
        self,
        state: _State,
        queries: np.ndarray,
        k: int,
        allowed: Optional[np.ndarray],
        transform: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        last = np.full((len(queries), 1), float(transform), np.float32)
        asked = np.concatenate((queries, last), axis=1)
        left_out = 0 if allowed is None else len(allowed) - int(np.count_nonzero(allowed))
        if left_out <= FEW:
            scores, rows = state.exact.search(asked, k + left_out)
            return (scores, rows) if not left_out else _first(scores, rows, k, allowed)
        chosen = load_faiss().SearchParameters(sel=among(allowed))
        return state.exact.search(asked, k, params=chosen)

    def _batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        state = self._now()
        for start in range(0, len(state.vectors), BATCH):
            part = slice(start, start + BATCH)
            vectors = state.vectors[part]
            yield np.arange(start, start + len(vectors)), vectors, state.biases[part]

    def _now(self) -> _State:
        self._current()
        return self._state


def _first(
    scores: np.ndarray, rows: np.ndarray, k: int, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first k of each query among those that are allowed, of [Q, n] with k of them or more."""
    order = np.argsort(~allowed[rows], axis=1, kind='stable')[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)


def _hits(
    state: _State, types: dict[str, str], scores: np.ndarray, rows: np.ndarray, transform: bool
) -> list[Hit]:
    raws = scores - (state.biases[rows] if transform else 0)
    return [
        Hit(float(score), float(raw), _item(state, row, types))
        for score, raw, row in zip(scores, raws, rows.tolist())
    ]


def _item(state: _State, row: int, types: dict[str, str]) -> Item:
    columns = state.columns
    metadata = {name: columns[name][row] for name in types}
    return Item(*(columns[name][row] for name in COLUMNS), float(state.biases[row]), metadata)
