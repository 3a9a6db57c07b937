"""A store and the model that made it, as one thing that answers and can be changed."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
from mmengine.config import Config
from torch import nn

from mmvtr import apis
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.serving.batching import ModelThread
from mmvtr.serving.library import Library
from mmvtr.serving.moments import Moment, Moments
from mmvtr.storage.lock import FolderInUse
from mmvtr.store import GalleryStore, Hit, Item, open_store

#: The other ranking is searched so deep for what it says of a hit.
DEPTH = 100


class Empty(ValueError):
    """There is nothing to search."""


class Query(NamedTuple):
    """What is searched for.

    Attributes:
        vector: float32 [D].
        sigma: of a text of a probabilistic model.
    """

    vector: np.ndarray
    sigma: Optional[float] = None


class Answer(NamedTuple):
    """The hits of a query.

    Attributes:
        hits: best first.
        moved: of each its rank in the other ranking, with biases or without; None: it is not among
            the first :data:`DEPTH` there.
        count: items of the gallery.
    """

    hits: list[Hit]
    moved: Optional[list[Optional[int]]]
    count: int


class NewItem(NamedTuple):
    """What is to be added: a file of the library, a vector, or both."""

    id: str
    file: Optional[str] = None
    vector: Optional[Sequence[float]] = None
    start: Optional[float] = None
    end: Optional[float] = None
    metadata: Mapping[str, Any] = {}


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

    Attributes:
        thread: owns the model.
        fingerprint: of the model's weights.
    """

    def __init__(
        self,
        location: Union[str, Path],
        store: GalleryStore,
        model: nn.Module,
        cfg: Config,
        library: Library,
    ) -> None:
        self.location, self.store, self.library = location, store, library
        self.fingerprint = apis.fingerprint(model)
        self._model, self._cfg = model, cfg
        self._moments = Moments(model, cfg)
        self._encoder = apis.TextEncoder(model, cfg)
        self._changes = threading.Lock()
        self.thread = ModelThread(self._encode)

    @classmethod
    def open(
        cls,
        location: Union[str, Path],
        *,
        library: Optional[Union[str, Path]] = None,
        config: Optional[Union[str, Path]] = None,
        checkpoint: Optional[Union[str, Path]] = None,
    ) -> 'Gallery':
        """A gallery for reading; see :meth:`take`.

        Args:
            location: a folder or a URL, as of :func:`mmvtr.store.open_store`.
            library: folder whose files may be added.
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
        return cls(location, store, model, cfg, shelf)

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

    def close(self) -> None:
        """Write what is in memory, and let others write."""
        self.thread.close()
        with self._changes:
            try:
                if self.store.writable:
                    self.store.persist()
            finally:
                self.store.close()

    # -- answers -----------------------------------------------------------------------------

    def _encode(self, texts: Sequence[str]) -> list[Query]:
        found = self._encoder(texts).levels
        vectors = apis.vectors(self._model, found).cpu().numpy()
        return list(map(Query, vectors, apis.sigmas(found) or [None] * len(texts)))

    def encode_file(
        self, path: Union[str, Path], start: Optional[float] = None, end: Optional[float] = None
    ) -> tuple[np.ndarray, Optional[float]]:
        """Vector float32 [D] and sigma of a video; in the model's thread."""
        found = apis.encode_videos(
            self._model, self._cfg, [path], ids=['video'], spans=[(start, end)]
        ).levels
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
        record: bool = True,
    ) -> Answer:
        """The best items.

        Args:
            k: at most as many as there are.
            filter: as of :meth:`~mmvtr.store.protocol.GalleryStore.search`.
            transform: rank with biases.
            compare: also tell the ranks that they have in the other ranking.
            record: let the query take part in the sample of served queries, if one is kept.

        Raises:
            Empty: there are no items.
            ValueError: a k above their number, a filter or a vector that does not fit.
        """
        store, vector = self.store, np.asarray(query.vector, dtype=np.float32)[None]
        count = store.count()
        if not count:
            raise Empty('the gallery is empty: add a video first')
        if k > count:
            raise ValueError(f'k is {k}, but the gallery has {count} items')
        options = dict(filter=filter, model=self.fingerprint)
        hits = store.search(vector, k, transform=transform, record=record, **options)[0]
        if not compare:
            return Answer(hits, None, count)
        deep = min(max(k, DEPTH), count)
        others = store.search(vector, deep, transform=not transform, record=False, **options)[0]
        ranks = {hit.item.id: rank for rank, hit in enumerate(others, 1)}
        return Answer(hits, [ranks.get(hit.item.id) for hit in hits], count)

    def moment(self, text: str, item: Item) -> Optional[Moment]:
        """When in a video a text matches; in the model's thread."""
        return self._moments(text, item)

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
            KnownIds, ValueError, OSError: as of :meth:`~mmvtr.store.protocol.GalleryStore.add`.
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
            return self.thread.job(lambda: self.encode_file(path, item.start, item.end)).result()
        except BrokenVideoError as error:
            raise BrokenVideoError(f'{item.file[:80]!r} cannot be read as a video') from error

    def delete(self, ids: Sequence[str]) -> int:
        """Remove items; returns how many are left.

        Raises:
            UnknownIds: one is not there; none is removed then.
            FolderInUse, OSError: as :meth:`add`.
        """
        with self._changed() as store:
            store.delete(ids)
            return store.count()

    def refit(self, texts: Optional[Sequence[str]], **options: Any) -> dict[str, Any]:
        """New biases from texts, or from the sample of served queries; returns what was done, and
        how far the ranking has moved.

        Args:
            texts: the bank; None: the sample that the store keeps.
            options: of :meth:`~mmvtr.store.protocol.GalleryStore.refit`.

        Raises:
            KeyError: a word that a closed vocabulary lacks.
            ValueError: as of :meth:`~mmvtr.store.protocol.GalleryStore.refit`.
            FolderInUse, OSError: as :meth:`add`.
        """
        bank = None
        if texts is not None:
            parts = [texts[i : i + 64] for i in range(0, len(texts), 64)]
            found = [self.thread.job(lambda part=part: self._encode(part)) for part in parts]
            bank = np.stack([query.vector for one in found for query in one.result()])
        with self._changed() as store:
            moved = store.refit(bank, model=self.fingerprint, **options)
            return dict(store.last_refit, moved=moved._asdict())

    def undo(self) -> dict[str, Any]:
        """Take the last refit back; returns how far that moved the ranking.

        Raises:
            ValueError: there was none.
            FolderInUse, OSError: as :meth:`add`.
        """
        with self._changed() as store:
            return dict(moved=store.undo()._asdict())


def try_to_take(gallery: Gallery) -> Optional[str]:
    """Take the right to write; returns why not, where another process has it."""
    try:
        gallery.take()
    except FolderInUse as error:
        return str(error)
    return None
