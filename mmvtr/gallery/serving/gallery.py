"""A store and the model that made it, as one thing that answers and can be changed."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
from mmengine.config import Config
from torch import nn

from mmvtr import apis
from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr.gallery.serving.batching import ModelThread
from mmvtr.gallery.serving.decoders import Decoders
from mmvtr.gallery.serving.library import Library, ListedFiles
from mmvtr.gallery.serving.moment_search import Frames, Moment, Moments
from mmvtr.gallery.serving.overview import Overview
from mmvtr.gallery.serving.sampling import Client, Sampler, cleaned, unit
from mmvtr.gallery.store import GalleryStore, Hit, Item, open_store
from mmvtr.gallery.store.drift import Drift, drift_of
from mmvtr.storage.lock import FolderInUse

#: The other ranking is searched so deep for what it says of a hit.
DEPTH = 100


class Empty(ValueError):
    """There is nothing to search."""


class Cut(NamedTuple):
    """Tokens of a text that is longer than the model reads, with those at its begin and its end.

    Attributes:
        read: that the model was given.
        of: that the whole text has.
    """

    read: int
    of: int


class Query(NamedTuple):
    """What is searched for.

    Attributes:
        vector: float32 [D].
        sigma: of a text of a probabilistic model.
        text: what it was made of; None: of a vector, a video or an item.
        cut: what of the text the model has not read; None: nothing.
        scaled: whether it was brought to length 1.
    """

    vector: np.ndarray
    sigma: Optional[float] = None
    text: Optional[str] = None
    cut: Optional[Cut] = None
    scaled: bool = False

    @classmethod
    def of(cls, vector: Sequence[float]) -> 'Query':
        """A vector of a user, at length 1.

        Raises:
            ValueError: see :func:`~mmvtr.gallery.serving.sampling.unit`.
        """
        found = unit(vector)
        with np.errstate(over='ignore'):  # what is infinite as float32 has been scaled
            return cls(found, scaled=not np.array_equal(found, np.asarray(vector, np.float32)))


class Answer(NamedTuple):
    """The hits of a query.

    Attributes:
        hits: best first.
        transform: whether biases have ranked them.
        moved: of each its rank in the other ranking, with biases or without; None: it is not among
            the first :data:`DEPTH` there.
        count: items of the gallery.
        p_match: of each the probability that it matches; None: nobody asked, or not calibrated.
        threshold: score from which on the wanted share matches; None: none does, or nobody asked.
        threshold_p_match: P(match) there.
    """

    hits: list[Hit]
    transform: bool
    moved: Optional[list[Optional[int]]]
    count: int
    p_match: Optional[list[float]] = None
    threshold: Optional[float] = None
    threshold_p_match: Optional[float] = None


class NewItem(NamedTuple):
    """What is to be added: a file of the library, a vector, or both."""

    id: str
    file: Optional[str] = None
    vector: Optional[Sequence[float]] = None
    start: Optional[float] = None
    end: Optional[float] = None
    metadata: Mapping[str, Any] = {}


def reason_of(error: BrokenVideoError, path: Union[str, Path]) -> str:
    """Why a video cannot be read, without where it is and without advice for who has a config."""
    while isinstance(error.__cause__, BrokenVideoError):
        error = error.__cause__
    return str(error).rpartition(f'{path}: ')[2].replace(str(path), 'the file')


class Gallery:
    """See :meth:`open`.

    The store is read at once.  The right to write, which one process has at a time, is taken when
    the service begins, or, where another process has it then, by the first change that finds it
    free; it is kept until the end.

    Args:
        location: of the store.
        store: as it was opened.
        model, cfg: the retriever that made its vectors, and its config.
        library: whose files may be added.
        links: folders that links among the listed files may lead into.

    Attributes:
        thread: owns the model.
        decoders: read videos.
        files: opens the files of items.
        overview: tells what is in it.
        fingerprint: of the model's weights.
    """

    def __init__(
        self,
        location: Union[str, Path],
        store: GalleryStore,
        model: nn.Module,
        cfg: Config,
        library: Library,
        links: Sequence[Union[str, Path]] = (),
    ) -> None:
        self.location, self.store, self.library = location, store, library
        self.files = ListedFiles(library, links)
        self.fingerprint = apis.fingerprint(model)
        self._model, self._cfg = model, cfg
        self._moments = Moments(model, cfg)
        self._texts = apis.TextEncoder(model, cfg)
        self._videos = apis.VideoEncoder(model, cfg)
        self.decoders = Decoders()
        self._sampler = Sampler()
        self.overview = Overview(lambda: self.store)
        self._changes = threading.Lock()
        self._drift: Optional[Drift] = None
        self.thread = ModelThread(self._encode)

    @classmethod
    def open(
        cls,
        location: Union[str, Path],
        *,
        library: Optional[Union[str, Path]] = None,
        links: Sequence[Union[str, Path]] = (),
        config: Optional[Union[str, Path]] = None,
        checkpoint: Optional[Union[str, Path]] = None,
    ) -> 'Gallery':
        """A gallery for reading; see :meth:`take`.

        Args:
            location: a folder or a URL, as of :func:`mmvtr.gallery.store.open_store`.
            library: folder whose files may be added.
            links: folders that links among the listed files may lead into.
            config, checkpoint: as of :func:`mmvtr.apis.load_stored_retriever`.

        Raises:
            ConnectionError: the URL does not answer.
            FileNotFoundError, NotADirectoryError: no store, config, checkpoint or library.
            RuntimeError: a damaged file, or a checkpoint of other weights than the store's.
            ValueError: a model whose scores are no inner products, or which reads stored words.
        """
        shelf = Library(library)
        store = open_store(location)
        model, cfg = apis.load_stored_retriever(
            location, store, config=config, checkpoint=checkpoint
        )
        apis.refuse_without_vectors(model)
        return cls(location, store, model, cfg, shelf, links)

    def take(self) -> None:
        """Take the right to write.

        Raises:
            FolderInUse: another process has it.
            OSError: the folder cannot be written.
        """
        with self._changes:
            self._take()

    def _take(self) -> None:
        if not self.store.writable:
            writer = open_store(self.location, write=True)
            self.store.close()
            self.store = writer
            sample = writer.online
            if sample is not None and len(sample):
                sample.restore(cleaned(sample.queries()), sample.seen)

    def close(self) -> None:
        """Write what is in memory, and let others write."""
        self.decoders.close()
        self.thread.close()
        with self._changes:
            try:
                if self.store.writable:
                    self.store.persist()
            finally:
                self.store.close()

    # -- answers -----------------------------------------------------------------------------

    def _encode(self, texts: Sequence[str]) -> list[Query]:
        found = self._texts(texts)
        vectors = apis.vectors(self._model, found.levels).cpu().numpy()
        sigmas = apis.sigmas(found.levels) or [None] * len(texts)
        cuts = [
            Cut(read, read + more) if more else None
            for read, more in zip(found.lengths.tolist(), self._texts.cut(texts))
        ]
        return [Query(*one) for one in zip(vectors, sigmas, texts, cuts)]

    def read(
        self, path: Union[str, Path], start: Optional[float] = None, end: Optional[float] = None
    ) -> dict[str, Any]:
        """The frames of a video or of a part of it, for :meth:`encode`; not in the model's thread.

        Raises:
            BrokenVideoError, FileNotFoundError: it cannot be read.
        """
        return self._videos.read(path, start=start, end=end)

    def encode(self, batch: dict[str, Any]) -> 'Future[tuple[np.ndarray, Optional[float]]]':
        """Vector float32 [D] and sigma of a video that was read.

        Raises:
            Busy: too many wait for the model.
        """
        return self.thread.job(lambda: self._of_video(batch))

    def _of_video(self, batch: dict[str, Any]) -> tuple[np.ndarray, Optional[float]]:
        found = self._videos(batch).levels
        sigmas = apis.sigmas(found)
        vector = apis.vectors(self._model, found)[0].cpu().numpy()
        return vector, None if sigmas is None else sigmas[0]

    def item(self, name: str) -> Item:
        """An item and its vector.

        Raises:
            UnknownIds: there is none.
        """
        return self.store.get([name])[0]

    def search(
        self,
        query: Query,
        k: int,
        *,
        filter: Optional[Mapping[str, Any]],
        transform: bool,
        compare: bool,
        calibrated: bool = False,
        min_precision: Optional[float] = None,
        asker: Optional[Client] = None,
    ) -> Answer:
        """The best items.

        Args:
            k: at most as many as there are.
            filter: as of :meth:`~mmvtr.gallery.store.protocol.GalleryStore.search`.
            transform: rank with biases, if the gallery has any.
            compare: also tell the ranks that they have in the other ranking.
            calibrated: also tell P(match), which is that of texts.
            min_precision: in (0, 1), also tell its threshold.
            asker: whose query may take part in the sample of served queries, as
                :mod:`mmvtr.gallery.serving.sampling` says; None: it does not.

        Raises:
            Empty: there are no items.
            ValueError: a k above their number, a filter or a vector that does not fit; a
                ``min_precision`` of a gallery without a calibration.
        """
        store, vector = self.store, np.asarray(query.vector, dtype=np.float32)[None]
        count = store.count()
        if not count:
            raise Empty('the gallery is empty: add a video first')
        if k > count:
            raise ValueError(f'k is {k}, but the gallery has {count} items')
        options = dict(filter=filter, model=self.fingerprint, record=False)
        transform = transform and store.normaliser is not None
        hits = store.search(vector, k, transform=transform, **options)[0]
        if asker is not None:
            self._sampler.offer(store, query.vector, query.text, asker)
        p_match = store.p_match(hits) if calibrated else None
        least = None if min_precision is None else store.threshold(min_precision)
        if least is not None and not np.isfinite(least):
            least = None
        at = None if least is None else store.p_match_of(least)
        found = Answer(hits, transform, None, count, p_match, least, at)
        if not compare:
            return found
        deep = min(max(k, DEPTH), count)
        others = store.search(vector, deep, transform=not transform, **options)[0]
        ranks = {hit.item.id: rank for rank, hit in enumerate(others, 1)}
        return found._replace(moved=[ranks.get(hit.item.id) for hit in hits])

    def drift(self) -> Optional[Drift]:
        """Whether the served queries ask for a refit; None: it cannot be said."""
        self._drift = drift_of(self.store)
        return self._drift

    def gauges(self) -> dict[str, tuple[str, Optional[float]]]:
        """Figures of now by name, each with what it is; None: not known."""
        sample, drift = self.store.online, self._drift
        return dict(
            items=('Items of the gallery.', self.store.count()),
            waiting_texts=('Texts that wait for the model.', self.thread.waiting),
            encoded_texts=('Texts that the model has encoded.', self.thread.texts),
            text_batches=('Forward passes for them.', self.thread.batches),
            sampled_queries=(
                'Served queries that are kept for a refit.',
                None if sample is None else len(sample),
            ),
            offered_queries=(
                'Served queries that have taken part.',
                None if sample is None else sample.seen,
            ),
            drift_ratio=(
                'Share of places of the most found 1 % now, divided by that at the last refit, '
                'when /drift was last asked.',
                None if drift is None else drift.now / drift.then,
            ),
            refit_suggested=(
                '1 where /drift has last suggested a refit.',
                None if drift is None else drift.refit,
            ),
        )

    def frames(self, item: Item) -> Frames:
        """The frames of an item, for :meth:`moment`; not in the model's thread.

        Raises:
            BrokenVideoError: the file cannot be read; the message names the item.
            Outside, FileNotFoundError: as of
                :meth:`~mmvtr.gallery.serving.library.ListedFiles.open`.
        """
        path = self.files.path(item)
        try:
            return self._moments.read(item, path)
        except BrokenVideoError as error:
            raise BrokenVideoError(
                f'the file of {item.id[:80]!r} cannot be read as a video: {reason_of(error, path)}'
            ) from error
        except FileNotFoundError as error:
            raise FileNotFoundError(f'the file of {item.id[:80]!r} is gone') from error

    def moment(self, text: str, frames: Frames) -> 'Future[Optional[Moment]]':
        """When in a video a text matches.

        Raises:
            Busy: too many wait for the model.
        """
        return self.thread.job(lambda: self._moments(text, frames))

    # -- changes -----------------------------------------------------------------------------

    @contextmanager
    def _changed(self) -> Iterator[GalleryStore]:
        """The store for one change, which is on disk at the end, or is not there at all."""
        with self._changes:
            self._take()
            with self.store.kept() as store:
                yield store

    def add(self, items: Sequence[NewItem]) -> int:
        """Encode files and add them; returns how many there are now.

        Raises:
            Outside, FileNotFoundError: a file that is not in the library.
            BrokenVideoError: one that cannot be read.
            FolderInUse: another process writes.
            KnownIds, ValueError, OSError: as of
                :meth:`~mmvtr.gallery.store.protocol.GalleryStore.add`.
        """
        paths = [None if item.file is None else self.library.file(item.file) for item in items]
        vectors, sigmas = [], []
        for item, path in zip(items, paths):
            if item.vector is not None:
                found = np.asarray(item.vector, dtype=np.float32), None
            elif path is not None:
                found = self._encoded(item, path)
            else:
                raise ValueError(f'{item.id[:80]!r} has neither a file nor a vector')
            if found[0].shape != (self.store.dim,):
                raise ValueError(
                    f'the vector of {item.id[:80]!r} has {found[0].size} numbers, the gallery has '
                    f'{self.store.dim}: it is of another model'
                )
            vectors.append(found[0])
            sigmas.append(found[1])
        columns = {name for item in items for name in item.metadata}
        with self._changed() as store:
            store.add(
                [item.id for item in items],
                np.stack(vectors),
                paths=[None if path is None else str(path) for path in paths],
                starts=[item.start for item in items],
                ends=[item.end for item in items],
                sigmas=sigmas,
                metadata={name: [item.metadata.get(name) for item in items] for name in columns},
                model=self.fingerprint,
            )
            return store.count()

    def _encoded(self, item: NewItem, path: Path) -> tuple[np.ndarray, Optional[float]]:
        try:
            batch = self.decoders(lambda: self.read(path, item.start, item.end)).result()
            return self.encode(batch).result()
        except BrokenVideoError as error:
            raise BrokenVideoError(
                f'{item.file[:80]!r} cannot be read as a video: {reason_of(error, path)}'
            ) from error
        except FileNotFoundError as error:
            raise FileNotFoundError(f'the library has no file {item.file[:80]!r}') from error

    def delete(self, ids: Sequence[str]) -> int:
        """Remove items; returns how many are left.

        Raises:
            UnknownIds: one is not there; none is removed then.
            FolderInUse, OSError: as :meth:`add`.
        """
        with self._changed() as store:
            store.delete(ids)
            return store.count()

    def quarantine(self, ids: Sequence[str], release: bool = False) -> int:
        """Leave items out of all searches, or let them in again; returns how many are left out.

        Raises:
            UnknownIds: one is not there.
            ValueError: one to be released that is not in quarantine.
            FolderInUse, OSError: as :meth:`add`.
        """
        with self._changed() as store:
            (store.release if release else store.quarantine)(ids)
            return len(store.quarantined)

    def refit(self, texts: Optional[Sequence[str]], **options: Any) -> dict[str, Any]:
        """New biases from texts, or from the sample of served queries; returns what was done, and
        how far the ranking has moved.

        ``texts_cut`` of the answer is how many of the texts were longer than the model reads.

        Args:
            texts: the bank; None: the sample that the store keeps.
            options: of :meth:`~mmvtr.gallery.store.protocol.GalleryStore.refit`.

        Raises:
            KeyError: a word that a closed vocabulary lacks.
            ValueError: as of :meth:`~mmvtr.gallery.store.protocol.GalleryStore.refit`.
            FolderInUse, OSError: as :meth:`add`.
        """
        bank, cut = None, 0
        if texts is not None:
            parts = [texts[i : i + 64] for i in range(0, len(texts), 64)]
            found = [self.thread.job(lambda part=part: self._encode(part)) for part in parts]
            queries = [query for one in found for query in one.result()]
            bank = np.stack([query.vector for query in queries])
            cut = sum(query.cut is not None for query in queries)
        with self._changed() as store:
            moved = store.refit(bank, model=self.fingerprint, **options)
            return dict(store.last_refit, moved=moved._asdict(), texts_cut=cut)

    def undo(self, kind: Optional[str] = None) -> dict[str, Any]:
        """Take the last change back; returns what it was, and how far that moved the ranking.

        Args:
            kind: of :meth:`~mmvtr.gallery.store.protocol.GalleryStore.undo`.

        Raises:
            ValueError: there was none, or a change of too many items.
            FolderInUse, OSError: as :meth:`add`.
        """
        with self._changed() as store:
            change, moved = store.undo(kind)
            return dict(
                kind=change.kind,
                changed=change.items,
                items=store.count(),
                moved=None if moved is None else moved._asdict(),
            )


def try_to_take(gallery: Gallery) -> Optional[str]:
    """Take the right to write; returns why not, where another process has it."""
    try:
        gallery.take()
    except FolderInUse as error:
        return str(error)
    return None
