"""A store in a folder of this machine: its lock, its files, and the items in memory.

Items are stored in parts (:mod:`~mmvtr_gallery.store.parts`), biases in a file of their own, so
that a refit writes only four bytes per item.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Hashable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from mmvtr.arrays import Debiaser
from mmvtr.arrays.inputs import Geometry
from mmvtr.errors import UserError
from mmvtr.storage import FolderLock, file_digest, leftovers, write_atomically
from mmvtr_gallery.store.fits import read_fit, write_fit
from mmvtr_gallery.store.items import Rows, check_geometry, norms_of, said_of_lengths
from mmvtr_gallery.store.joint import as_one, cut_short, finish, mend, stamp, valid
from mmvtr_gallery.store.lifted import index_options
from mmvtr_gallery.store.manifest import PART, Manifest, check_config, refuse_link, sweep
from mmvtr_gallery.store.memory import Held, InMemory
from mmvtr_gallery.store.online import reservoir_of
from mmvtr_gallery.store.parts import read_items, write_biases, write_items
from mmvtr_gallery.store.protocol import Fit, GalleryStore
from mmvtr_gallery.store.undoing import Change, Reversal, change_of, write_reversal


class FolderStore(InMemory, GalleryStore):
    """A store in a folder; see :class:`~mmvtr_gallery.store.protocol.GalleryStore`; needs faiss.

    All items are in memory; the bias of an item is one more dimension of its vector there.
    """

    engine = 'faiss'

    def __init__(self, folder: Union[str, Path], lock: Optional[FolderLock]) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.writable = lock is not None
        self._lock = lock
        self._manifest: Optional[Manifest] = None
        self._stamp: Optional[tuple[int, ...]] = None
        self._debiaser: Optional[Debiaser] = None
        self._held: Optional[Held] = None
        self._told: tuple[Optional[Manifest], Hashable] = None, None  # see :attr:`state`

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
        geometry: Geometry = 'cosine',
        first: int = 0,
    ) -> 'FolderStore':
        """Create an empty store, open for writing.

        Args:
            folder: created if missing; it must not hold a store.
            dim: D of the vectors.
            model: fingerprint of the model that makes them.
            about: where they come from.
            online: keep a sample of the served queries: ``capacity``, ``memory`` and ``seed`` of
                :class:`~mmvtr_gallery.store.online.Reservoir`, and ``refit_every`` N queries;
                None: keep nothing of any query.
            geometry: ``'cosine'``, or ``'inner_product'`` of unscaled vectors.
            first: number of its first change, which names its files.

        Raises:
            FileExistsError: the folder holds a store.
            FolderInUse: another process writes there.
            ValueError: a dim below 1, unknown options in ``online``.
        """
        if type(dim) is not int or dim < 1:
            raise ValueError(f'dim must be 1 or more, not {str(dim)[:80]}')
        check_geometry(geometry)
        if online is not None:
            online = {'refit_every': None, **online}
            reservoir_of(dim, online)
        lock = FolderLock(folder)
        lock.take()
        try:
            if (Path(folder) / 'store.json').exists():
                raise FileExistsError(
                    f'{folder} already holds a store: open it, or choose another folder'
                )
            store = cls(folder, lock)
            store._filling = True
            store._held = Held.none(dim)
            store._manifest = Manifest(
                dim,
                model,
                dict(about or {}),
                commit=first,
                online=online,
                queue=f'queue-{first}.safetensors' if first else 'queue.safetensors',
                geometry=geometry,
            )
            store._commit(**write_biases(store.folder, store._manifest, store._held))
            if online is not None:
                store._open_queue(online)
        except BaseException:
            lock.release()
            raise
        return store

    @classmethod
    def open(cls, folder: Union[str, Path], *, write: bool = False) -> 'FolderStore':
        """Open an existing store.

        Args:
            write: whether to open it for writing, which one process may at a time.

        Raises:
            FileNotFoundError: there is no store.
            FolderInUse: another process writes there.
            RuntimeError: a file is damaged, or is a link.
        """
        valid(folder)
        lock = FolderLock(folder) if write else None
        if lock is not None:
            lock.take()
        try:
            if write:
                mend(folder)
            store = cls(folder, lock)
            store._refresh()
            if write:
                store._sweep()
                shutil.rmtree(store.folder / PART, ignore_errors=True)
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
    def geometry(self) -> Geometry:
        return self._manifest.geometry or 'inner_product'

    @property
    def debiaser(self) -> Optional[Debiaser]:
        self._current()
        return self._debiaser

    @property
    def last_refit(self) -> Optional[dict[str, Any]]:
        return self._current().refit

    @property
    def version(self) -> int:
        return self._current().commit

    @property
    def state(self) -> Hashable:
        manifest = self._current()
        if self._told[0] is not manifest:  # the number of a change may be used again
            self._told = manifest, object()
        return self._told[1]

    @property
    def _calibration(self) -> Optional[dict[str, Any]]:
        return self._current().calibration

    def _keep_calibration(self, calibration: Optional[dict[str, Any]]) -> None:
        self._commit(calibration=calibration)

    @property
    def _quarantined(self) -> list[str]:
        return self._current().quarantined

    def _keep_quarantined(self, ids: list[str], change: Change) -> None:
        undo = dict(change._asdict(), file=None, held=self._manifest.quarantined)
        self._commit(quarantined=ids, undo=undo)

    @property
    def _held_before(self) -> list[str]:
        return self._manifest.undo['held']

    @property
    def config(self) -> Optional[Path]:
        """Return the file of the model's config, if :meth:`keep_config` has written one."""
        name = self._current().config
        return None if name is None else self.folder / name

    def keep_config(self, text: str) -> None:
        """Store the config of the model that makes the vectors, as json.

        Raises:
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        with self._changing:
            name = f'config-{self._manifest.commit + 1}.json'
            write_atomically(self.folder / name, lambda file: file.write(text.encode()))
            digests = {**self._manifest.digests, name: file_digest(self.folder / name)}
            self._commit(config=name, digests=digests)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock, self.writable = None, False

    def index(
        self,
        form: str = 'l2',
        *,
        partitions: Optional[int] = None,
        probes: int = 16,
        candidates: int = 100,
    ) -> None:
        """Build an approximate index, which is updated by all later changes.

        Args:
            form: one of :data:`~mmvtr_gallery.store.lifted.FORMS`.
            partitions: number of inverted lists; default about the square root of the number of
                items.
            probes: lists that a search visits.
            candidates: items of these lists that are rescored exactly.

        Raises:
            ValueError: an unknown form, fewer than 256 items, numbers below 1.
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        with self._changing:
            held = self._held
            options = index_options(len(held.both), form, partitions, probes, candidates)
            self._commit(Held.of(held.both, held.columns, options), index=options)

    # -- states ------------------------------------------------------------------------------

    def _current(self) -> Manifest:
        """Return the valid manifest; a reader re-reads it if another process changed it."""
        # No stamp: this store is no longer a file, but an old index in memory.
        if not self.writable and self._stamp and stamp(self.folder) != self._stamp:
            with self._changing:
                self._refresh()
        return self._manifest

    def _refresh(self) -> None:
        """Read the valid state from disk, again if a writer replaces it meanwhile."""
        for attempt in range(20):
            at, manifest = stamp(self.folder), valid(self.folder)
            for name in manifest.files():
                refuse_link(self.folder / name)
            try:
                if manifest != self._manifest:  # otherwise only the journal was removed
                    self._take(manifest)
                break
            except FileNotFoundError:
                # A writer has made another change and removed files that are no longer referenced.
                if attempt == 19 or stamp(self.folder) == at:
                    raise
        self._stamp = at
        if self._manifest.online is not None and self.writable:
            self._open_queue(self._manifest.online)

    def _take(self, manifest: Manifest) -> None:
        """Serve a state from now on."""
        name = manifest.normaliser
        known = self._manifest is not None and self._manifest.normaliser == name
        debiaser = self._debiaser
        if not known:
            debiaser = _read_fit(self.folder, name, manifest.refit, manifest)
        check_config(self.folder, manifest)
        self._held = read_items(self.folder, manifest)
        self._manifest, self._debiaser = manifest, debiaser

    def _commit(self, held: Optional[Held] = None, **changes: Any) -> None:
        """Make a new state valid, and serve it."""
        manifest = replace(self._manifest, commit=self._manifest.commit + 1, **changes)
        known, names = manifest.digests, (manifest.biases, manifest.config)
        manifest = replace(manifest, digests={name: known[name] for name in names if name in known})
        if self._joint:
            self._unpublished = manifest  # written at the end of the larger change
        else:
            finish(self.folder)  # or readers would prefer the journal of an earlier joint change
            manifest.write(self.folder)
        self._manifest, self._held = manifest, self._held if held is None else held
        self._sweep()

    def _mark(self) -> Any:
        return self._manifest, self._debiaser, self._held

    def _return_to(self, mark: Any) -> None:
        manifest, debiaser, held = mark
        self._held = held.whole(manifest.index)
        self._manifest, self._debiaser = manifest, debiaser

    @contextmanager
    def kept(self) -> Iterator['FolderStore']:
        """See :meth:`~mmvtr_gallery.store.protocol.GalleryStore.kept`."""
        with as_one(self):
            yield self

    @property
    def lengths_matter(self) -> Optional[str]:
        noted = self._current().geometry is not None
        vectors = self._held.vectors
        return None if noted or not len(vectors) else said_of_lengths(norms_of(vectors, None))

    @property
    def unfinished(self) -> Optional[str]:
        return None if self.writable else cut_short(self.folder)

    # -- changes -----------------------------------------------------------------------------

    def _change(
        self,
        gone: Sequence[str],
        rows: Optional[Rows],
        biases: np.ndarray,
        reversal: Union[Reversal, Change, None],
    ) -> None:
        old, held = self._manifest, self._held
        types, unchanged = dict(old.types), len(held.both)
        try:
            if gone:
                places = held.coded.rows('id', gone)
                unchanged, held = min(places), held.without(places, old.index)
            if rows is not None:
                types.update(rows.types)
                held = held.grown(rows, biases, types, old.index)
            parts = write_items(self.folder, old, held, unchanged)
            changes = dict(
                parts=parts, types=types, undo=write_reversal(self.folder, old.commit, reversal)
            )
            self._commit(held, **changes, **write_biases(self.folder, old, held))
        except BaseException:
            self._held = self._held.whole(old.index)
            raise

    def _switch(
        self, fit: Fit, biases: Iterable[tuple[np.ndarray, np.ndarray]], change: Change
    ) -> None:
        new = np.zeros(self._manifest.count, np.float32)
        for keys, values in biases:
            new[keys] = values
        held = self._held.biased(new, self._manifest.index)
        self._commit(
            held,
            **write_biases(self.folder, self._manifest, held),
            **self._written_fit(fit),
            undo=dict(change._asdict(), file=None),
        )
        self._debiaser = fit.debiaser

    def _written_fit(self, fit: Fit) -> dict[str, Any]:
        """Write the Debiaser; return the manifest's entries for it and for the fit before."""
        old, name = self._manifest, None
        if fit.debiaser is not None:
            name = f'normaliser-{old.commit + 1}.safetensors'
            write_fit(fit.debiaser, self.folder / name)
        before = dict(normaliser=old.normaliser, refit=old.refit, calibration=old.calibration)
        now = dict(normaliser=name, refit=fit.refit, calibration=fit.calibration)
        return dict(now, before=before)

    @property
    def _before(self) -> Optional[Fit]:
        before = self._manifest.before
        if before is None:
            return None
        refit = before['refit']
        debiaser = _read_fit(self.folder, before['normaliser'], refit, self._manifest)
        return Fit(debiaser, refit, before.get('calibration'))

    @property
    def last_change(self) -> Optional[Change]:
        manifest = self._current()
        if manifest.undo is not None:
            return change_of(manifest.undo)
        return None if manifest.before is None else Change('refit')  # of an older version

    def _kept_reversal(self) -> Optional[Reversal]:
        name = self._manifest.undo['file']
        return None if name is None else Reversal.read(self.folder / name, self.dim)

    def _sweep(self) -> None:
        """Remove the files of states that are no longer valid."""
        if self._joint:
            return  # the state on disk is still the old one
        sweep(self.folder, self._manifest.files())
        for name in leftovers(self.folder):
            with suppress(OSError):  # the state is valid already; the next change removes it
                Path(self.folder, name).unlink(missing_ok=True)

    # -- served queries ----------------------------------------------------------------------

    def keep_queries(self, online: Optional[Mapping[str, Any]]) -> None:
        """Switch the sample of served queries on or off; off removes the stored queries.

        Args:
            online: see :meth:`create`.
        """
        self._check_writable()
        with self._changing:
            if online is None:
                self.online = self.refit_every = None
                self._commit(online=None, sampled=False)
                Path(self.folder, self._manifest.queue).unlink(missing_ok=True)
            else:
                online = {'refit_every': None, **online}
                self._open_queue(online)
                self._commit(online=dict(online))

    def _open_queue(self, online: Mapping[str, Any]) -> None:
        self.online, self.refit_every = reservoir_of(self.dim, online), online['refit_every']
        path = self.folder / self._manifest.queue
        if path.is_file():
            self.online.read(path)
        elif self._manifest.sampled:
            self.online = self.refit_every = None
            raise UserError(
                f'{path} is missing, which holds the sample of served queries: put it back, or '
                'export the gallery again'
            )

    def _persist(self) -> None:
        if self._filling and (self._manifest.undo or self._manifest.before):
            self._commit(undo=None, before=None)  # filling a new store cannot be undone
        if self.online is not None:
            self.online.write(self.folder / self._manifest.queue)
            if not self._manifest.sampled:
                self._commit(sampled=True)


def _read_fit(
    folder: Path, name: Optional[str], refit: Optional[dict[str, Any]], manifest: Manifest
) -> Optional[Debiaser]:
    """Read a store's Debiaser; None if there is no file."""
    if name is None:
        return None
    geometry = manifest.geometry or 'inner_product'
    return read_fit(folder / name, dim=manifest.dim, geometry=geometry, refit=refit)
