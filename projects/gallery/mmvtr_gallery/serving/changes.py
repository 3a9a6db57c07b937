"""Changes of a gallery: encoding new items, and changing its store and windows as one."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence, Union

import numpy as np
import torch

from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr.functional.uncertainty.calibration_fits import fit_calibration
from mmvtr_gallery.extraction.windows import windows_of
from mmvtr_gallery.serving.answers import NewItem, Query
from mmvtr_gallery.serving.batching import ModelThread
from mmvtr_gallery.serving.decoders import Decoders
from mmvtr_gallery.serving.encoders import Encoder
from mmvtr_gallery.serving.judgments import Judgment, Judgments
from mmvtr_gallery.serving.library import Library
from mmvtr_gallery.store import GalleryStore
from mmvtr_gallery.store.moments import MomentStore, Windows
from mmvtr_gallery.store.windowing import NOT_NOTED


def reason_of(error: BrokenVideoError, path: Union[str, Path]) -> str:
    """Return why a video cannot be read, without its path and without advice about the config."""
    while isinstance(error.__cause__, BrokenVideoError):
        error = error.__cause__
    return str(error).rpartition(f'{path}: ')[2].replace(str(path), 'the file')


class Changes(ABC):
    """The part of :class:`~mmvtr_gallery.serving.gallery.Gallery` that changes it."""

    store: GalleryStore
    library: Library
    judgments: Judgments
    fingerprint: Optional[str]
    encoder: Encoder
    thread: ModelThread
    decoders: Decoders
    _changes: threading.Lock

    @contextmanager
    def _changed(self) -> Iterator[Union[GalleryStore, MomentStore]]:
        """Yield the store, with its windows, for one change that is saved as a whole or not."""
        with self._changes:
            self._take()
            with (self.moments or self.store).kept() as both:
                yield both

    def add(self, items: Sequence[NewItem]) -> dict[str, Any]:
        """Encode files and add them; return the number of items in ``items``.

        If the gallery has windows, those of the files are added too, and ``windows`` is their
        number; ``note`` is a sentence about items that get none, such as those given as a vector.

        Raises:
            Outside, FileNotFoundError: a file is not in the library.
            BrokenVideoError: a file cannot be read.
            FolderInUse: another process writes.
            KnownIds, ValueError, OSError: see
                :meth:`~mmvtr_gallery.store.protocol.GalleryStore.add`.
        """
        paths = [None if item.file is None else self.library.file(item.file) for item in items]
        vectors, sigmas = [], []
        for item, path in zip(items, paths):
            if item.vector is not None:
                found = np.asarray(item.vector, dtype=np.float32), None
            elif path is not None:
                with _naming(item, path):
                    found = self._part(path, item.start, item.end)
            else:
                raise ValueError(f'{item.id[:80]!r} has neither a file nor a vector')
            if found[0].shape != (self.store.dim,):
                raise ValueError(
                    f'the vector of {item.id[:80]!r} has {found[0].size} numbers, the gallery has '
                    f'{self.store.dim}: it is of another model'
                )
            vectors.append(found[0])
            sigmas.append(found[1])
        windows, note = self._cut(items, paths)
        columns = {name for item in items for name in item.metadata}
        with self._changed() as both:
            given = {} if both is self.store else dict(windows=windows)
            both.add(
                [item.id for item in items],
                np.stack(vectors),
                **given,
                paths=[None if path is None else str(path) for path in paths],
                starts=[item.start for item in items],
                ends=[item.end for item in items],
                sigmas=sigmas,
                metadata={name: [item.metadata.get(name) for item in items] for name in columns},
                model=self.fingerprint,
            )
            said = dict(items=self.store.count())
            if both is not self.store:
                count = sum(len(one.starts) for one in windows.values())
                said.update(windows=count, note=note)
            return said

    def _cut(
        self, items: Sequence[NewItem], paths: Sequence[Optional[Path]]
    ) -> tuple[dict[str, Windows], Optional[str]]:
        """Return the windows of new items by id, and a sentence about items that get none."""
        windowing = None if self.moments is None else self.moments.windowing
        if windowing is None:
            return {}, f'added without windows: {NOT_NOTED}'
        found = {}
        for item, path in zip(items, paths):
            if path is not None:
                with _naming(item, path):
                    spans = item.start, item.end, windowing
                    found[item.id] = windows_of(path, *spans, lambda *part: self._part(*part)[0])
        without = [item.id for item in items if item.id not in found]
        if not without:
            return found, None
        more = f' and {len(without) - 1} others' if len(without) > 1 else ''
        return found, f'{without[0][:80]!r}{more} without windows, which need a file'

    def _part(
        self, path: Path, start: Optional[float], end: Optional[float]
    ) -> tuple[np.ndarray, Optional[float]]:
        batch = self.decoders(lambda: self.encoder.read(path, start, end)).result()
        return self.encode(batch).result()

    def delete(self, ids: Sequence[str]) -> int:
        """Remove items; return the number of remaining items.

        Raises:
            UnknownIds: an id is not in the store; then none is removed.
            FolderInUse, OSError: see :meth:`add`.
        """
        with self._changed() as both:
            both.delete(ids)
            return self.store.count()

    def quarantine(self, ids: Sequence[str], release: bool = False) -> int:
        """Exclude items from all searches, or release them; return the number of excluded items.

        Raises:
            UnknownIds: an id is not in the store.
            ValueError: an item to release is not in quarantine.
            FolderInUse, OSError: see :meth:`add`.
        """
        with self._changed():
            (self.store.release if release else self.store.quarantine)(ids)
            return len(self.store.quarantined)

    def refit(
        self,
        texts: Optional[Sequence[str]],
        vectors: Optional[Sequence[Sequence[float]]] = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Compute new biases from texts, or from the sample of served queries; return the refit's
        options and how far the ranking has moved.

        ``texts_cut`` of the answer is the number of texts that exceed the model's context length.

        Args:
            texts: the bank.
            vectors: the bank as vectors; neither: the sample that the store keeps.
            options: options of :meth:`~mmvtr_gallery.store.protocol.GalleryStore.refit`.

        Raises:
            KeyError: a word is not in a closed vocabulary.
            NoEncoder: there is no model for the texts.
            ValueError: see :meth:`~mmvtr_gallery.store.protocol.GalleryStore.refit`.
            FolderInUse, OSError: see :meth:`add`.
        """
        bank, cut = None, 0
        if vectors is not None:
            bank = np.stack([self.query(row).vector for row in vectors])
        if texts is not None:
            queries = self._queries(texts)
            bank = np.stack([query.vector for query in queries])
            cut = sum(query.cut is not None for query in queries)
        with self._changed() as both:
            moved = both.refit(bank, model=self.fingerprint, **options)
            return dict(self.store.last_refit, moved=moved._asdict(), texts_cut=cut)

    def judge(self, judgment: Judgment) -> int:
        """Store a judgment; return the number of pairs that are judged now.

        Raises:
            UnknownIds: no item has this id.
            ValueError: the gallery has no folder to keep it in.
            FolderInUse, OSError: see :meth:`add`.
        """
        self.store.get([judgment.id])
        with self._changes:
            self._take()
            self.judgments.add(judgment)
        return len(self.judgments.pairs())

    def calibrate(self) -> dict[str, int]:
        """Fit P(match) to the judged pairs (Platt), by the scores that rank now; return their
        number and how many of them are right.

        Pairs whose item is no longer there are left out.

        Raises:
            KeyError, NoEncoder: see :meth:`refit`.
            ValueError: P(match) is that of list places; no pairs, or see
                :func:`mmvtr.functional.fit_calibration`.
            FolderInUse, OSError: see :meth:`add`.
        """
        judged = self.judgments.pairs()
        texts = {pair.text: row for row, pair in enumerate(judged)}  # a number of each text
        vectors = {query.text: query.vector for query in self._queries(list(texts))}
        with self._changes:
            self._take()
            if self.store.topk_probabilities is not None:
                raise ValueError(
                    'this gallery has P(match) of list places, from the pairs of its last refit; '
                    'refit it without them, and then calibrate'
                )
            items, names = {}, sorted({pair.id for pair in judged})
            for first in range(0, len(names), 1000):
                where = dict(id=names[first : first + 1000])
                columns = self.store.table(['id', 'vector', 'bias'], filter=where)[1]
                items.update((name, one) for name, *one in zip(*columns.values()))
            pairs = [pair for pair in judged if pair.id in items]
            if not pairs:
                raise ValueError('nothing is judged: say of some results whether they are right')
            scores = [  # a bias is 0 where there are none
                vectors[pair.text] @ vector + bias
                for pair in pairs
                for vector, bias in [items[pair.id]]
            ]
            right = torch.tensor([pair.right for pair in pairs])
            fit = fit_calibration(
                torch.tensor(np.array(scores, dtype=np.float64)),
                right,
                queries=torch.tensor([texts[pair.text] for pair in pairs]),
                debiased=self.store.debiaser is not None,
            )
            self.store.calibrate(fit)
            return dict(pairs=len(pairs), right=int(right.sum()))

    def _queries(self, texts: Sequence[str]) -> list[Query]:
        """Encode texts in parts, so that others have their turn."""
        parts = [texts[i : i + 64] for i in range(0, len(texts), 64)]
        found = [self.thread.job(lambda part=part: self.encoder.texts(part)) for part in parts]
        return [query for one in found for query in one.result()]

    def undo(self, kind: Optional[str] = None) -> dict[str, Any]:
        """Undo the last change; return what it was, and how far that moved the ranking.

        Args:
            kind: see :meth:`~mmvtr_gallery.store.protocol.GalleryStore.undo`.

        Raises:
            ValueError: there was no change, or it was of too many items.
            FolderInUse, OSError: see :meth:`add`.
        """
        with self._changed() as both:
            change, moved = both.undo(kind)
            return dict(
                kind=change.kind,
                changed=change.items,
                undone=change.undone,
                items=self.store.count(),
                moved=None if moved is None else moved._asdict(),
            )

    # -- of the gallery ----------------------------------------------------------------------

    @property
    @abstractmethod
    def moments(self) -> Optional[MomentStore]:
        """Return the windows beside the store; None: it has none, or another export removed
        them.
        """

    @abstractmethod
    def query(self, vector: Sequence[float]) -> Query:
        """Return the query of a client's vector."""

    @abstractmethod
    def encode(self, batch: dict[str, Any]) -> 'Future[tuple[np.ndarray, Optional[float]]]':
        """Return the future vector, float32 [D], and sigma of a video that was read.

        Raises:
            Busy: too many wait for the model.
        """

    @abstractmethod
    def _take(self) -> None:
        """Acquire the right to write, unless this process has it."""


@contextmanager
def _naming(item: NewItem, path: Path) -> Iterator[None]:
    """Replace the path in errors by the library's file name."""
    try:
        yield
    except BrokenVideoError as error:
        raise BrokenVideoError(
            f'{item.file[:80]!r} cannot be read as a video: {reason_of(error, path)}'
        ) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(f'the library has no file {item.file[:80]!r}') from error
