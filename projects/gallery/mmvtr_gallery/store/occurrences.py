"""Hubness of a gallery: how often queries find each item, hubs, and items never found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Optional

import numpy as np
import torch

from mmvtr.functional.metrics.hubness import skewness
from mmvtr_gallery.store.moved import QUERIES

if TYPE_CHECKING:
    from mmvtr_gallery.store.protocol import GalleryStore

#: Number of top hits that count, in a gallery of at least six times as many items.
BEST = 10
#: A hub's count exceeds the mean by this many standard deviations (Radovanovic et al. 2010).
HUB = 2.0


class Occurrences(NamedTuple):
    """How often each item of a store is among the top k hits of the store's queries.

    Attributes:
        source: ``'bank'``: the texts of the last refit; ``'served'``: the sample of served queries.
        queries: number of evaluated queries, up to 256.
        k: number of hits of a query that count.
        ids: ids of the N items that are not in quarantine.
        found: counts with the store's biases, int64 [N].
        raw: counts without biases, int64 [N].
        behind: float32 [N], smallest gap over queries between the k-th best score and the item's
            score; 0 or less if it is found.
    """

    source: str
    queries: int
    k: int
    ids: list[str]
    found: np.ndarray
    raw: np.ndarray
    behind: np.ndarray

    @property
    def expected(self) -> float:
        """Return the mean count: queries per item if all items were found equally often."""
        return self.k * self.queries / len(self.ids)

    @property
    def bar(self) -> float:
        """Return the count above which an item is a hub."""
        return float(self.found.mean() + HUB * self.found.std())

    def skews(self) -> tuple[float, float]:
        """Return the skewness of the counts, without biases and with them."""
        raw, found = (skewness(torch.from_numpy(x)).item() for x in (self.raw, self.found))
        return raw, found


def count_occurrences(store: 'GalleryStore', k: Optional[int] = None) -> Optional[Occurrences]:
    """Count occurrences for the queries that a store knows; reads all vectors twice.

    Args:
        store: the store.
        k: number of hits of a query that count; default 10, or a sixth of fewer than 60 items.

    Returns:
        None for a store without items, or one that knows no query because it has had no refit and
        keeps no sample of served queries.
    """
    source, queries = _known_queries(store)
    keys, columns = store.table(['id'])
    held = set(store.quarantined)
    there = [(key, name) for key, name in zip(keys, columns['id']) if name not in held]
    count = len(there)
    if queries is None or not count:
        return None
    k = min(k or min(BEST, max(1, count // 6)), count)
    some = np.linspace(0, len(queries) - 1, min(len(queries), QUERIES)).astype(int)
    queries = queries[some]
    place = {key: row for row, (key, _) in enumerate(there)}
    best = [_Best(len(queries), k), _Best(len(queries), k)]
    for rows, vectors, biases in _placed(store, place):
        raw = queries @ vectors.T
        best[0].see(raw, rows)
        best[1].see(raw + biases, rows)
    last = best[1].scores.min(1)
    behind = np.zeros(count, np.float32)
    for rows, vectors, biases in _placed(store, place):
        behind[rows] = (last[:, None] - queries @ vectors.T - biases).min(0)
    counts = [np.bincount(one.rows.ravel(), minlength=count) for one in best]
    names = [name for _, name in there]
    return Occurrences(source, len(queries), k, names, counts[1], counts[0], behind)


def _known_queries(store: 'GalleryStore') -> tuple[str, Optional[np.ndarray]]:
    debiaser, sample = store.debiaser, store.online
    if debiaser is not None:
        return 'bank', debiaser.bank_.texts.numpy()
    if sample is not None and len(sample):
        return 'served', sample.queries()
    return 'served', None


def _placed(
    store: 'GalleryStore', place: dict[Any, int]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield rows, vectors and biases in batches, without items that were added meanwhile."""
    for keys, vectors, biases in store._batches():
        rows = np.array([place.get(key, -1) for key in keys.tolist()], int)
        there = rows >= 0
        yield rows[there], vectors[there], biases[there]


class _Best:
    """The k best items of Q queries, collected in batches."""

    def __init__(self, queries: int, k: int) -> None:
        self._k = k
        self.scores = np.zeros((queries, 0), np.float32)
        self.rows = np.zeros((queries, 0), np.int64)

    def see(self, scores: np.ndarray, rows: np.ndarray) -> None:
        """Merge scores float32 [Q, n] of items int64 [n]."""
        scores = np.concatenate((self.scores, scores), axis=1)
        places = np.broadcast_to(rows, (len(scores), len(rows)))
        places = np.concatenate((self.rows, places), axis=1)
        if scores.shape[1] > self._k:
            kept = np.argpartition(-scores, self._k - 1, axis=1)[:, : self._k]
            scores = np.take_along_axis(scores, kept, 1)
            places = np.take_along_axis(places, kept, 1)
        self.scores, self.rows = scores, places
