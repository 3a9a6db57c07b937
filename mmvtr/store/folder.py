"""A store in a folder of this machine: its lock, its manifest, and what travels with the items."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional, Union

import numpy as np

from mmvtr.storage import FolderLock, leftovers
from mmvtr.store.items import Rows, norms_of
from mmvtr.store.manifest import Manifest, append_biases, map_biases, stamp
from mmvtr.store.normaliser import Normaliser
from mmvtr.store.online import reservoir_of
from mmvtr.store.protocol import GalleryStore

_QUEUE = 'queue.safetensors'


class FolderStore(GalleryStore):
    """See :meth:`create` and :meth:`open`."""

    def __init__(self, folder: Union[str, Path], lock: Optional[FolderLock]) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.writable = lock is not None
        self._lock = lock
        self._manifest: Optional[Manifest] = None
        self._stamp: Optional[tuple[int, int]] = None
        self._normaliser: Optional[Normaliser] = None

    def __str__(self) -> str:
        return f'the store {self.folder}'

    @classmethod
    def create(
        cls,
        folder: Union[str, Path],
        dim: int,
        *,
        model: Optional[str] = None,
        about: Optional[Mapping[str, Any]] = None,
        online: Optional[Mapping[str, Any]] = None,
    ) -> 'FolderStore':
        """A new, empty store, open for writing.

        Args:
            folder: is made; it may exist, but hold no store.
            dim: D of the vectors.
            model: fingerprint of what makes them.
            about: where they come from.
            online: keep a sample of the served queries: ``capacity``, ``memory`` and ``seed`` of
                :class:`~mmvtr.store.online.Reservoir`, and ``refit_every`` N queries; None: keep
                nothing of any query.

        Raises:
            FileExistsError: there is a store.
            FolderInUse: another process writes there.
            ValueError: a dim below 1, unknown options of the queue.
        """
        if type(dim) is not int or dim < 1:
            raise ValueError(f'dim must be 1 or more, not {str(dim)[:80]}')
        if online is not None:
            online = {'refit_every': None, **online}
            reservoir_of(dim, online)
        lock = FolderLock(folder)
        lock.take()
        try:
            if (Path(folder) / 'store.json').exists():
                raise FileExistsError(f'{folder} holds a store already')
            store = cls(folder, lock)
            manifest = Manifest(cls.engine, dim, model, dict(about or {}), online=online)
            append_biases(store.folder / manifest.biases, 0, np.zeros(0, np.float32))
            store._begin(manifest)
            if online is not None:
                store._open_queue(online)
        except BaseException:
            lock.release()
            raise
        return store

    @classmethod
    def open(cls, folder: Union[str, Path], *, write: bool = False) -> 'FolderStore':
        """A store that is there.

        Args:
            write: whether it may be changed from here: one process at a time.

        Raises:
            FileNotFoundError: there is none.
            FolderInUse: another process writes there.
            RuntimeError: a file is damaged.
        """
        Manifest.read(folder)
        lock = FolderLock(folder) if write else None
        if lock is not None:
            lock.take()
        try:
            store = cls(folder, lock)
            store._refresh()
            if write:
                store._recover()
                store._sweep()
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        return store

    @property
    def dim(self) -> int:
        return self._manifest.dim

    @property
    def model(self) -> Optional[str]:
        return self._manifest.model

    @property
    def about(self) -> dict[str, Any]:
        return dict(self._manifest.about)

    @property
    def types(self) -> dict[str, str]:
        return dict(self._current().types)

    @property
    def normaliser(self) -> Optional[Normaliser]:
        self._current()
        return self._normaliser

    @property
    def last_refit(self) -> Optional[dict[str, Any]]:
        return self._current().refit

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock, self.writable = None, False

    # -- of an engine ------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, manifest: Manifest) -> None:
        """Make the files of an empty store and commit it."""

    @abstractmethod
    def _load(self, manifest: Manifest, biases: np.ndarray) -> Any:
        """What searches read of a valid state: kept as ``self._state``, replaced as a whole."""

    @abstractmethod
    def _recover(self) -> None:
        """After a kill: take away what belongs to no state."""

    # -- states ------------------------------------------------------------------------------

    def _current(self) -> Manifest:
        """What is valid; a reader looks whether another process has changed it."""
        # No stamp: what is served is no file, but an old index that was read.
        if not self.writable and self._stamp and stamp(self.folder) != self._stamp:
            with self._changing:
                self._refresh()
        return self._manifest

    def _refresh(self) -> None:
        """Read what is valid."""
        for attempt in range(20):
            at, manifest = stamp(self.folder), Manifest.read(self.folder)
            if manifest.engine != self.engine:
                raise RuntimeError(f'{self} is of the engine {manifest.engine}, not {self.engine}')
            try:
                self._take(manifest)
                break
            except FileNotFoundError:
                # A writer has gone on in between, and removed what nothing refers to any more.
                if attempt == 19 or stamp(self.folder) == at:
                    raise
        self._stamp = at
        if self._manifest.online is not None and self.writable:
            self._open_queue(self._manifest.online)

    def _take(self, manifest: Manifest) -> None:
        """Serve a state from now on."""
        name = manifest.normaliser
        known = self._manifest is not None and self._manifest.normaliser == name
        if not known:
            self._normaliser = name and Normaliser.read(self.folder / name)
        biases = map_biases(self.folder / manifest.biases, manifest.next)
        self._state = self._load(manifest, biases)
        self._manifest = manifest

    def _commit(self, **changes: Any) -> None:
        """Make a new state valid, and serve it."""
        manifest = replace(self._manifest, commit=self._manifest.commit + 1, **changes)
        manifest.write(self.folder)
        self._take(manifest)
        self._sweep()

    def _append(self, rows: Rows, biases: np.ndarray) -> dict[str, Any]:
        """Write the biases of new items; returns what the manifest says of them."""
        old = self._manifest
        append_biases(self.folder / old.biases, old.next, biases)
        return dict(
            next=old.next + len(rows.ids),
            count=old.count + len(rows.ids),
            types={**old.types, **rows.types},
            highest=max(float(biases.max()), old.highest if old.count else -np.inf),
            norms=norms_of(rows.vectors, old.norms),
        )

    def _switch(
        self,
        normaliser: Optional[Normaliser],
        biases: Iterable[tuple[np.ndarray, np.ndarray]],
        options: dict[str, Any],
    ) -> None:
        old = self._manifest
        tag = old.commit + 1
        highest, written = -np.inf, np.zeros(old.next, np.float32)
        for keys, values in biases:
            written[keys] = values
            highest = max(highest, float(values.max()))
        append_biases(self.folder / f'biases-{tag}.f32', 0, written)
        name = None
        if normaliser is not None:
            name = f'normaliser-{tag}.safetensors'
            normaliser.write(self.folder / name)
        self._commit(
            biases=f'biases-{tag}.f32',
            normaliser=name,
            highest=highest if old.count else 0.0,
            refit=options,
        )

    def _sweep(self) -> None:
        """Remove files of states that are not valid any more."""
        valid = {self._manifest.biases, self._manifest.normaliser, *self._own_files()}
        for pattern in ('biases-*.f32', 'normaliser-*.safetensors', 'items-*.safetensors'):
            for path in self.folder.glob(pattern):
                if path.name not in valid:
                    path.unlink(missing_ok=True)
        for name in leftovers(self.folder):
            Path(self.folder, name).unlink(missing_ok=True)

    def _own_files(self) -> Iterator[str]:
        """Further files of the valid state."""
        yield from ()

    # -- served queries ----------------------------------------------------------------------

    def keep_queries(self, online: Optional[Mapping[str, Any]]) -> None:
        """Switch the sample of served queries on or off; off removes what was kept.

        Args:
            online: as of :meth:`create`.
        """
        self._check_writable()
        with self._changing:
            if online is None:
                self.online = self.refit_every = None
                Path(self.folder, _QUEUE).unlink(missing_ok=True)
            else:
                online = {'refit_every': None, **online}
                self._open_queue(online)
            self._commit(online=online and dict(online))

    def _open_queue(self, online: Mapping[str, Any]) -> None:
        self.online, self.refit_every = reservoir_of(self.dim, online), online['refit_every']
        if Path(self.folder, _QUEUE).is_file():
            self.online.read(self.folder / _QUEUE)

    def _persist(self) -> None:
        if self.online is not None:
            self.online.write(self.folder / _QUEUE)
