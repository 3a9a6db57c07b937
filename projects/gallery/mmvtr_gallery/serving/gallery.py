"""A store together with the model that made it: it answers queries and can be changed."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
from mmengine.config import Config
from torch import nn

from mmvtr import apis
from mmvtr.arrays import Shift
from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr.functional.transforms.transform_table import OF_QUERIES, TRANSFORMS
from mmvtr.storage.lock import FolderInUse
from mmvtr_gallery.remote import EmbeddingServer
from mmvtr_gallery.serving.answers import (
    DEPTH,
    HITS,
    Answer,
    Cut,
    Empty,
    InQuarantine,
    Query,
)
from mmvtr_gallery.serving.batching import ModelThread
from mmvtr_gallery.serving.changes import Changes, reason_of
from mmvtr_gallery.serving.decoders import Decoders
from mmvtr_gallery.serving.library import Library, ListedFiles
from mmvtr_gallery.serving.moment_search import Frames, Moment, Moments
from mmvtr_gallery.serving.overview import Overview
from mmvtr_gallery.serving.sampling import Client, Sampler, cleaned
from mmvtr_gallery.store import GalleryStore, Hit, Item, open_store
from mmvtr_gallery.store.drift import Drift, drift_of, served_shift
from mmvtr_gallery.store.moments import BestWindow, MomentHit, MomentStore
from mmvtr_gallery.store.windowing import NOT_NOTED
from mmvtr_gallery.stored_model import load_stored_retriever

#: Fields that a hit by moments and a best window share.
_OF_HIT = ('start', 'end', 'score', 'raw', 'bias')


class Gallery(Changes):
    """A store together with its model; see :meth:`open`.

    The store is read at once.  The right to write, which one process has at a time, is acquired
    when the service starts or, if another process has it then, by the first change that finds it
    free; it is kept until the end.

    Args:
        location: location of the store.
        store: the opened store.
        moments: the windows beside it, opened in the same mode; None: it has none.
        model, cfg: the retriever that made its vectors, and its config.
        library: folder whose files may be added.
        links: folders that symbolic links among the listed files may lead into.

    Attributes:
        thread: the thread that owns the model.
        decoders: the threads that read videos.
        files: opens the files of items.
        overview: pages and statistics of the gallery.
        fingerprint: fingerprint of the model's weights.
    """

    def __init__(
        self,
        location: Union[str, Path],
        store: GalleryStore,
        moments: Optional[MomentStore],
        model: nn.Module,
        cfg: Config,
        library: Library,
        links: Sequence[Union[str, Path]] = (),
    ) -> None:
        self.location, self.store, self.library = location, store, library
        self._moments = moments
        self.files = ListedFiles(library, links)
        self.fingerprint = apis.fingerprint(model)
        self._model, self._cfg = model, cfg
        self._frames = Moments(model, cfg)
        self._texts = apis.TextEncoder(model, cfg)
        self._videos = apis.VideoEncoder(model, cfg)
        self.decoders = Decoders()
        self._sampler = Sampler()
        self.overview = Overview(lambda: self.store)
        self._changes = threading.Lock()
        self._drift: Optional[Drift] = None
        #: What :meth:`shift` has last found.
        self._shift: Optional[Shift] = None
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
        """Open a gallery for reading; see :meth:`take`.

        Args:
            location: a folder or a URL, see :func:`mmvtr_gallery.store.open_store`.
            library: folder whose files may be added.
            links: folders that symbolic links among the listed files may lead into.
            config, checkpoint: see :func:`mmvtr_gallery.stored_model.load_stored_retriever`.

        Raises:
            ConnectionError: the URL does not answer.
            FileNotFoundError, NotADirectoryError: no store, config, checkpoint or library.
            RuntimeError: a damaged file, or a checkpoint with other weights than the store's.
            ValueError: a model whose scores are not inner products, or which reads stored words;
                windows of another model; a model on an embedding server whose URL is not set.
        """
        shelf = Library(library)
        store = open_store(location)
        model, cfg = load_stored_retriever(location, store, config=config, checkpoint=checkpoint)
        apis.refuse_without_vectors(model)
        _refuse_unknown_server(model)
        return cls(location, store, _windows_of(store, location), model, cfg, shelf, links)

    def take(self) -> None:
        """Acquire the right to write.

        Raises:
            FolderInUse: another process has it.
            OSError: the folder cannot be written.
        """
        with self._changes:
            self._take()

    def _take(self) -> None:
        if not self.store.writable:
            writer = open_store(self.location, write=True)
            try:
                moments = _windows_of(writer, self.location, write=True)
            except BaseException:
                writer.close()
                raise
            self.store.close()
            if self._moments is not None:
                self._moments.close()
            self.store, self._moments = writer, moments
            sample = writer.online
            if sample is not None and len(sample):
                sample.restore(cleaned(sample.queries()), sample.seen)

    def close(self) -> None:
        """Write what is in memory, and release the right to write."""
        self.decoders.close()
        self.thread.close()
        with self._changes:
            with ExitStack() as closing:
                moments = self.moments
                stores = [self.store, *([] if moments is None else [moments.windows])]
                for store in stores:
                    closing.callback(store.close)
                for store in stores:
                    if store.writable:
                        store.persist()

    @property
    def moments(self) -> Optional[MomentStore]:
        try:
            if self._moments is not None:
                _ = self._moments.windows.version
        except FileNotFoundError:
            self._moments = None
        return self._moments

    def notes(self) -> list[str]:
        """Return the limitations of this gallery that are printed at start-up."""
        store, said = self.store, []
        there = store.debiaser
        reads = there is not None and TRANSFORMS[there.transform_].reads_items
        if reads and there.bank_.items is None:
            said.append(
                f'a re-fit must name a transform, such as {OF_QUERIES[0]!r}: the biases are of '
                f'{there.transform_!r}, which reads items seen before, and older galleries do not '
                'keep these (export it again)'
            )
        if store.unfinished is not None:
            said.append(store.unfinished)
        if store.raw_calibration:
            said.append(
                'no P(match): the calibration is for raw scores, and biases rank the gallery '
                '(refit with probabilities, or calibrate anew)'
            )
        if self.moments is not None and not self.moments.alike:
            said.append('videos and their windows have biases of different refits: re-fit both')
        if self.moments is not None and self.moments.windowing is None:
            said.append(f'videos that are added get no windows: {NOT_NOTED}')
        return said

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
        return self._videos.read(path, start=start, end=end)

    def encode(self, batch: dict[str, Any]) -> 'Future[tuple[np.ndarray, Optional[float]]]':
        return self.thread.job(lambda: self._of_video(batch))

    def _of_video(self, batch: dict[str, Any]) -> tuple[np.ndarray, Optional[float]]:
        found = self._videos(batch).levels
        sigmas = apis.sigmas(found)
        vector = apis.vectors(self._model, found)[0].cpu().numpy()
        return vector, None if sigmas is None else sigmas[0]

    def item(self, name: str) -> Item:
        """Return an item with its vector.

        Raises:
            UnknownIds: no item has this id.
        """
        return self.store.get([name])[0]

    def seen(self, name: str, *, trusted: bool) -> Item:
        """Return an item whose file a client requests.

        Args:
            name: the item's id.
            trusted: whether the client knows the token.

        Raises:
            UnknownIds: no item has this id.
            InQuarantine: it is quarantined, and the client does not know the token.
        """
        item = self.item(name)
        if not trusted and name in self.store.quarantined:
            raise InQuarantine(
                f'{name[:80]!r} is in quarantine: its file is shown only with the token'
            )
        return item

    def search(
        self,
        query: Query,
        k: Optional[int],
        *,
        filter: Optional[Mapping[str, Any]],
        transform: bool,
        compare: bool,
        calibrated: bool = False,
        min_precision: Optional[float] = None,
        unless_shifted: bool = False,
        by_moments: bool = False,
        asker: Optional[Client] = None,
    ) -> Answer:
        """Return the best items, each with its best window if the gallery has windows.

        Args:
            k: number of hits, at most the number of items; None: the default, or all if there are
                fewer.
            filter: see :meth:`~mmvtr_gallery.store.protocol.GalleryStore.search`.
            transform: rank with biases, if the gallery has any.
            compare: also return their ranks in the other ranking.
            calibrated: also return P(match), which is calibrated on texts; with biases, without a
                filter and if the store has top-k probabilities, that the place is right.
            min_precision: in (0, 1), also return its threshold.
            unless_shifted: no P(match) and no threshold where :meth:`shift` has last found that
                the served queries are not like those of the calibration.
            by_moments: rank items by their best windows, so that items without any are not found;
                scores and biases are then the windows', and have no P(match).
            asker: the client, whose query may enter the sample of served queries by the rules of
                :mod:`mmvtr_gallery.serving.sampling`; None: it does not.

        Raises:
            Empty: there are no items.
            ValueError: a k above their number, an invalid filter or vector; ``min_precision`` for a
                gallery without a calibration; ``by_moments`` for one without windows.
        """
        store, moments = self.store, self.moments
        vector = np.asarray(query.vector, dtype=np.float32)[None]
        if by_moments and moments is None:
            raise ValueError('the gallery has no windows that items could be ranked by')
        count = store.count()
        if not count:
            raise Empty('the gallery is empty: add a video first')
        k = min(HITS, count) if k is None else k
        if k > count:
            raise ValueError(f'k is {k}, but the gallery has {count} items')
        ranking = moments if by_moments else None
        windows = ()
        biased = (moments.windows if by_moments else store).debiaser is not None
        listed = transform and biased and not (filter or by_moments)
        listed = listed and store.topk_probabilities is not None
        # Search as deep as the probabilities need: ties and approximate scores keep their order.
        deep = max(k, store.topk_probabilities.depth) if listed and calibrated else k
        hits = self._ranked(vector, min(deep, count), filter, transform, ranking)[:k]
        if moments is not None:
            windows = _best_windows(moments, vector, hits, transform)
        transform, hits = transform and biased, [_as_hit(hit) for hit in hits]
        if asker is not None:
            self._sampler.offer(store, query.vector, query.text, asker)
        p_match, notes = None, []
        if calibrated and listed and self._shift is not None and self._shift.noticed:
            notes.append(str(self._shift))
        if notes and unless_shifted:
            calibrated, min_precision = False, None
        if calibrated and not by_moments:
            p_match = store.p_match(hits, vector if listed else None)
        least = at = None
        if min_precision is not None and listed:
            answers = store.topk_probabilities.answers(min_precision)
            at = _finite(answers.threshold)
            notes += [] if at is not None else [str(answers)]
        elif min_precision is not None and (
            store.calibration is not None or store.topk_probabilities is None
        ):
            least = _finite(store.threshold(min_precision))
            at = None if least is None else store.p_match_of(least)
            notes += [] if least is not None else [f'no score has precision {min_precision:g}']
        note = '; '.join(notes) or None
        found = Answer(hits, transform, None, count, p_match, least, at, windows, note)
        if not compare:
            return found
        deep = min(max(k, DEPTH), count)
        others = self._ranked(vector, deep, filter, not transform, ranking)
        ranks = {hit.item.id: rank for rank, hit in enumerate(others, 1)}
        return found._replace(moved=[ranks.get(hit.item.id) for hit in hits])

    def _ranked(
        self,
        vector: np.ndarray,
        k: int,
        filter: Optional[Mapping[str, Any]],
        transform: bool,
        moments: Optional[MomentStore],
    ) -> Sequence[Union[Hit, MomentHit]]:
        """Return the best items, ranked by their best windows if ``moments`` are given."""
        options = dict(filter=filter, transform=transform, model=self.fingerprint)
        if moments is not None:
            return moments.search(vector, k, **options)[0]
        return self.store.search(vector, k, **options, record=False)[0]

    def drift(self) -> Optional[Drift]:
        """Return the drift of served queries from the bank of the biases; None if unknown."""
        self._drift = drift_of(self.store)
        return self._drift

    def shift(self) -> Optional[Shift]:
        """Return whether served queries are like those of the calibration; None if unknown."""
        self._shift = served_shift(self.store)
        return self._shift

    def gauges(self) -> dict[str, tuple[str, Optional[float]]]:
        """Return current figures by name, each with its description; None: not known."""
        sample, drift, shift = self.store.online, self._drift, self._shift
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
            queries_not_like_bank=(
                '1 where /drift has last found that P(match) may be too high.',
                None if shift is None else shift.noticed,
            ),
        )

    def frames(self, item: Item) -> Frames:
        """Read the frames of an item, for :meth:`moment`; not in the model's thread.

        Raises:
            BrokenVideoError: the file cannot be read; the message names the item.
            Outside, FileNotFoundError: see
                :meth:`~mmvtr_gallery.serving.library.ListedFiles.open`.
        """
        path = self.files.path(item)
        try:
            return self._frames.read(item, path)
        except BrokenVideoError as error:
            raise BrokenVideoError(
                f'the file of {item.id[:80]!r} cannot be read as a video: {reason_of(error, path)}'
            ) from error
        except FileNotFoundError as error:
            raise FileNotFoundError(f'the file of {item.id[:80]!r} is gone') from error

    def moment(self, text: str, frames: Frames) -> 'Future[Optional[Moment]]':
        """Return the future moment at which a text matches in a video.

        Raises:
            Busy: too many wait for the model.
        """
        return self.thread.job(lambda: self._frames(text, frames))


def _refuse_unknown_server(model: nn.Module) -> None:
    """Raise ServerUnknown if a model runs on an embedding server whose URL is not set."""
    for part in model.modules():
        server = getattr(part, 'server', None)
        if isinstance(server, EmbeddingServer):
            server.check()


def _windows_of(
    store: GalleryStore, location: Union[str, Path], *, write: bool = False
) -> Optional[MomentStore]:
    """Return the windows beside a store; None: it has none."""
    try:
        return MomentStore.open(store, location, write=write)
    except FileNotFoundError:
        return None


def _best_windows(
    moments: MomentStore,
    vector: np.ndarray,
    hits: Sequence[Union[Hit, MomentHit]],
    transform: bool,
) -> list[Optional[BestWindow]]:
    """Return the best window of each hit, or the window that ranked it."""
    best = moments.best(vector, [hit.item for hit in hits], transform=transform)
    return [
        window._replace(**{name: getattr(hit, name) for name in _OF_HIT})
        if window is not None and isinstance(hit, MomentHit)
        else window
        for hit, window in zip(hits, best)
    ]


def _finite(x: float) -> Optional[float]:
    return float(x) if np.isfinite(x) else None


def _as_hit(hit: Union[Hit, MomentHit]) -> Hit:
    """Return a hit by items or by moments as a Hit, with the bias that ranked it."""
    if isinstance(hit, MomentHit):
        return Hit(hit.score, hit.raw, hit.item._replace(bias=hit.bias))
    return hit


def try_to_take(gallery: Gallery) -> Optional[str]:
    """Acquire the right to write; return the reason if another process has it."""
    try:
        gallery.take()
    except FolderInUse as error:
        return str(error)
    return None
