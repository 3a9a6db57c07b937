"""Detect that served queries have drifted from those that gave a gallery its biases and P."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
import torch

from mmvtr.arrays.shift import DEPTH, FEWEST_QUERIES, MOST, Shift, figures, shift_of
from mmvtr.functional.similarities.distinct import distinct_rows
from mmvtr_gallery.store.protocol import GalleryStore

#: Number of queries of either kind to compare, and of hits of each.
QUERIES, HITS = 256, 10
#: Minimal number of items and of served queries.
LEAST_ITEMS, LEAST_QUERIES = 100, 100
#: A drift is a share at least this many times that at the last refit.
RATIO = 2.0


class Drift(NamedTuple):
    """How unevenly items are found now, and at the last refit.

    Attributes:
        now: share of the top-10 places of served queries that the 1 % most frequent items take.
        then: the same share for the queries of the last refit.
        queries: number of compared queries of either kind.
    """

    now: float
    then: float
    queries: int

    @property
    def refit(self) -> bool:
        """Return whether a refit from the served queries is suggested."""
        return self.now >= RATIO * self.then

    def __str__(self) -> str:
        said = (
            f'the 1 % of the items that are found most take {self.now:.1%} of the ten best places '
            f'of {self.queries} served queries, {self.then:.1%} of those of the last refit'
        )
        return f'{said}: refit from the served queries' if self.refit else f'{said}: no drift'


def drift_of(store: GalleryStore, *, seed: int = 0) -> Optional[Drift]:
    """Compare the sample of served queries with as many queries of the last refit's bank.

    With good biases hardly any item is found much more often than others; with stale ones a few
    items take the places of the others (projects/gallery/docs/store.md, "Queries that drift").

    Args:
        store: one that keeps a sample of served queries, open for writing.
        seed: seed for drawing queries.

    Returns:
        None if there are no biases, no sample, fewer than :data:`LEAST_ITEMS` items or
        :data:`LEAST_QUERIES` queries.
    """
    debiaser, sample = store.debiaser, store.online
    if debiaser is None or sample is None:
        return None
    there = store.count() - len(store.quarantined)
    if there < LEAST_ITEMS:
        return None
    served, bank = (  # repeated queries count once
        queries[distinct_rows(queries)]
        for queries in (sample.queries(), debiaser.bank_.texts.numpy())
    )
    count = min(len(served), len(bank), QUERIES)
    if count < LEAST_QUERIES:
        return None
    rng = np.random.default_rng(seed)
    shares = []
    for queries in (served, bank):
        some = queries[rng.choice(len(queries), count, replace=False)]
        shares.append(_share(store, some, there))
    return Drift(*shares, count)


def _share(store: GalleryStore, queries: np.ndarray, there: int) -> float:
    hits = store.search(queries, HITS, record=False)
    names = [hit.item.id for found in hits for hit in found]
    counts = np.sort(np.unique(names, return_counts=True)[1])
    return float(counts[-max(1, there // 100) :].sum() / len(names))


def served_shift(store: GalleryStore, *, seed: int = 0) -> Optional[Shift]:
    """Hold the sample of served queries against the texts that P(right) was calibrated on.

    Args:
        store: one that keeps a sample of served queries, open for writing.
        seed: seed for drawing queries.

    Returns:
        None if there are no top-k probabilities, no sample, fewer than ten items, or fewer than 100
        different queries.
    """
    probabilities, sample = store.topk_probabilities, store.online
    if probabilities is None or probabilities.asked is None or sample is None:
        return None
    there = store.count() - len(store.quarantined)
    served = sample.queries()
    served = served[distinct_rows(served)]
    if there < DEPTH or len(served) < FEWEST_QUERIES:
        return None
    order = np.random.default_rng(seed).permutation(len(served))[:MOST]
    bank = store.debiaser.bank_.texts[probabilities.asked.rows].numpy()
    known = probabilities.asked.figures(_raw_scores(store, bank), there)
    return shift_of(
        torch.from_numpy(served[order]), figures(_raw_scores(store, served[order])), known
    )


def _raw_scores(store: GalleryStore, queries: np.ndarray) -> torch.Tensor:
    """Return the best raw scores of queries, float64 [Q, DEPTH]."""
    found = store.search(queries, DEPTH, transform=False, record=False)
    return torch.tensor([[hit.raw for hit in hits] for hits in found], dtype=torch.float64)
