"""A store together with what encodes its queries: it answers them and can be changed."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from mmvtr.arrays import Shift, TopKProbabilities
from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr.functional.transforms.transform_table import OF_QUERIES, TRANSFORMS
from mmvtr.storage.lock import FolderInUse
from mmvtr_gallery.serving.answers import (
    DEPTH,
    HITS,
    Answer,
    Empty,
    InQuarantine,
    Query,
)
from mmvtr_gallery.serving.batching import ModelThread
from mmvtr_gallery.serving.changes import Changes, reason_of
from mmvtr_gallery.serving.decoders import Decoders
from mmvtr_gallery.serving.encoders import Encoder, RetrieverEncoder, TextEncoder
from mmvtr_gallery.serving.judgments import Judgments
from mmvtr_gallery.serving.library import Library, ListedFiles
from mmvtr_gallery.serving.moment_search import Frames, Moment
from mmvtr_gallery.serving.overview import Overview
from mmvtr_gallery.serving.sampling import Client, Sampler, cleaned
from mmvtr_gallery.store import GalleryStore, Hit, Item, open_store
from mmvtr_gallery.store.drift import Drift, drift_of, served_shift
from mmvtr_gallery.store.moments import BestWindow, MomentHit, MomentStore
from mmvtr_gallery.store.windowing import NOT_NOTED
from mmvtr_gallery.stored_model import load_stored_retriever, names_model
from mmvtr_gallery.text_models import text_model_of

#: Fields that a hit by moments and a best window share.
_OF_HIT = ('start', 'end', 'score', 'raw', 'bias')


class Gallery(Changes):
    """A store together with what encodes its queries; see :meth:`open`.

    The store is read at once.  The right to write, which one process has at a time, is acquired
    when the service starts or, if another process has it then, by the first change that finds it
    free; it is kept until the end.

    Args:
        location: location of the store.
        store: the opened store.
        moments: the windows beside it, opened in the same mode; None: it has none.
        encoder: encodes texts and videos.
        library: folder whose files may be added.
        links: folders that symbolic links among the listed files may lead into.

    Attributes:
        thread: the thread that owns the model.
        decoders: the threads that read videos.
        judgments: which items people have judged right, or wrong, for a text.
        files: opens the files of items.
        overview: pages and statistics of the gallery.
        fingerprint: fingerprint of the model's weights, of a store of other vectors what its
            maker noted; None: unknown.
        unit: whether queries have length 1, so that those of clients are scaled.
    """

    def __init__(
        self,
        location: Union[str, Path],
        store: GalleryStore,
        moments: Optional[MomentStore],
        encoder: Encoder,
        library: Library,
        links: Sequence[Union[str, Path]] = (),
    ) -> None:
        self.location, self.store, self.library = location, store, library
        self._moments = moments
        self.judgments = Judgments(location)
        self.files = ListedFiles(library, links)
        self.encoder = encoder
        self.fingerprint = encoder.fingerprint or store.model
        self.unit = encoder.unit or store.geometry == 'cosine'
        self.decoders = Decoders()
        self._sampler = Sampler()
        self.overview = Overview(lambda: self.store)
        self._changes = threading.Lock()
        self._drift: Optional[Drift] = None
        #: What :meth:`shift` has last found.
        self._shift: Optional[Shift] = None
        self.thread = ModelThread(encoder.texts)

    @classmethod
    def open(
        cls,
        location: Union[str, Path],
        *,
        library: Optional[Union[str, Path]] = None,
        links: Sequence[Union[str, Path]] = (),
        config: Optional[Union[str, Path]] = None,
        checkpoint: Optional[Union[str, Path]] = None,
        text_model: Optional[str] = None,
    ) -> 'Gallery':
        """Open a gallery for reading; see :meth:`take`.

        Args:
            location: a folder or a URL, see :func:`mmvtr_gallery.store.open_store`.
            library: folder whose files may be added.
            links: folders that symbolic links among the listed files may lead into.
            config, checkpoint: see :func:`mmvtr_gallery.stored_model.load_stored_retriever`.
            text_model: encodes texts for vectors that no retriever of mmvtr made, see
                :func:`~mmvtr_gallery.text_models.load_text_model`.

        Raises:
            ConnectionError: the URL, or the server of the text model, does not answer.
            FileNotFoundError, NotADirectoryError: no store, config, checkpoint or library.
            RuntimeError: a damaged file, or a checkpoint with other weights than the store's.
            ValueError: a model whose scores are not inner products, or which reads stored words;
                windows of another model; a model on an embedding server whose URL is not set; a
                text model for a gallery that has its own, or of another width.
        """
        shelf = Library(library)
        store = open_store(location)
        if text_model is not None:
            own = bool(config or checkpoint) or names_model(location, store)
            encoder: Encoder = TextEncoder(text_model_of(location, store.dim, text_model, own=own))
        elif config or checkpoint or names_model(location, store):
            encoder = RetrieverEncoder(
                *load_stored_retriever(location, store, config=config, checkpoint=checkpoint)
            )
        else:
            encoder = Encoder()
        return cls(location, store, _windows_of(store, location), encoder, shelf, links)

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
            if self.unit and sample is not None and len(sample):
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

    def encode(self, batch: dict[str, Any]) -> 'Future[tuple[np.ndarray, Optional[float]]]':
        return self.thread.job(lambda: self.encoder.video(batch))

    def query(self, vector: Sequence[float]) -> Query:
        """Return the query of a client's vector, at length 1 where all queries have it.

        Raises:
            ValueError: an entry is not finite, or all are zero.
        """
        return Query.of(vector, scale=self.unit)

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
        queries: Sequence[Query],
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
    ) -> list[Answer]:
        """Return the best items of each query, each with its best window if there are windows.

        Args:
            queries: one or more; all are searched at once.
            k: number of hits, all items if there are fewer; None: the default.
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
            asker: the client, whose queries may enter the sample of served queries by the rules of
                :mod:`mmvtr_gallery.serving.sampling`; None: they do not.

        Raises:
            Empty: there are no items.
            ValueError: an invalid filter or vector; ``min_precision`` for a gallery without a
                calibration; ``by_moments`` for one without windows.
        """
        store, moments = self.store, self.moments
        if by_moments and moments is None:
            raise ValueError('the gallery has no windows that items could be ranked by')
        count = store.count()
        if not count:
            raise Empty('the gallery is empty: add a video first')
        vectors = np.stack([np.asarray(query.vector, dtype=np.float32) for query in queries])
        k = min(k or HITS, count)
        ranking = moments if by_moments else None
        transform = transform and (moments.windows if by_moments else store).debiaser is not None
        listed = None if filter or by_moments or not transform else store.topk_probabilities
        # Search as deep as the probabilities need: ties and approximate scores keep their order.
        deep = max(k, listed.depth) if listed is not None and calibrated else k
        found = self._ranked(vectors, deep, filter, transform, ranking)
        others = None
        if compare:
            others = self._ranked(vectors, max(k, DEPTH), filter, not transform, ranking)
        notes = []
        if calibrated and listed is not None and self._shift is not None and self._shift.noticed:
            notes.append(str(self._shift))
        if notes and unless_shifted:
            calibrated, min_precision = False, None
        least, at, lacking = _limits(store, listed, min_precision)
        note = '; '.join([*notes, *lacking]) or None
        answers = []
        for row, (query, every) in enumerate(zip(queries, found)):
            hits, vector, p_match = every[:k], vectors[row : row + 1], None
            windows = [] if moments is None else _best_windows(moments, vector, hits, transform)
            hits = [_as_hit(hit) for hit in hits]
            if asker is not None:
                self._sampler.offer(store, query.vector, query.text, asker)
            if calibrated and not by_moments:
                p_match = store.p_match(hits, deep=None if listed is None else every)
            moved = None
            if others is not None:
                ranks = {hit.item.id: rank for rank, hit in enumerate(others[row], 1)}
                moved = [ranks.get(hit.item.id) for hit in hits]
            told = p_match, least, at, windows, note
            answers.append(Answer(hits, transform, moved, count, *told))
        return answers

    def _ranked(
        self,
        vectors: np.ndarray,
        k: int,
        filter: Optional[Mapping[str, Any]],
        transform: bool,
        moments: Optional[MomentStore],
    ) -> Sequence[Sequence[Union[Hit, MomentHit]]]:
        """Return the best items, ranked by their best windows if ``moments`` are given."""
        options = dict(filter=filter, transform=transform, model=self.fingerprint)
        if moments is not None:
            return moments.search(vectors, k, **options)
        return self.store.search(vectors, k, **options, record=False)

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

    def frames(self, item: Item) -> Optional[Frames]:
        """Read the frames of an item, for :meth:`moment`; not in the model's thread.

        Returns:
            None: videos are not encoded here.

        Raises:
            BrokenVideoError: the file cannot be read; the message names the item.
            Outside, FileNotFoundError: see
                :meth:`~mmvtr_gallery.serving.library.ListedFiles.open`.
        """
        path = self.files.path(item)
        try:
            return self.encoder.frames(item, path)
        except BrokenVideoError as error:
            raise BrokenVideoError(
                f'the file of {item.id[:80]!r} cannot be read as a video: {reason_of(error, path)}'
            ) from error
        except FileNotFoundError as error:
            raise FileNotFoundError(f'the file of {item.id[:80]!r} is gone') from error

    def moment(self, text: str, frames: Optional[Frames]) -> 'Future[Optional[Moment]]':
        """Return the future moment at which a text matches in a video.

        Raises:
            Busy: too many wait for the model.
        """
        return self.thread.job(lambda: frames and self.encoder.moment(text, frames))


def _limits(
    store: GalleryStore, listed: Optional[TopKProbabilities], min_precision: Optional[float]
) -> tuple[Optional[float], Optional[float], list[str]]:
    """Return the score from which a precision is reached, P(match) there, and why there is none."""
    if min_precision is None:
        return None, None, []
    if listed is not None:
        answers = listed.answers(min_precision)
        at = _finite(answers.threshold)
        return None, at, [] if at is not None else [str(answers)]
    if store.calibration is None and store.topk_probabilities is not None:
        return None, None, []  # they are of lists with biases of the whole gallery
    least = _finite(store.threshold(min_precision))
    if least is None:
        return None, None, [f'no score has precision {min_precision:g}']
    return least, store.p_match_of(least), []


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
