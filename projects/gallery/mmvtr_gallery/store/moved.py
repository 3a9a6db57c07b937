"""How much new biases change the ranking of a gallery."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np

#: Number of queries that are compared.
QUERIES = 256


class Moved(NamedTuple):
    """The effect of a refit on the ranking.

    Attributes:
        queries: compared queries of the bank, up to :data:`QUERIES`; 0 without a bank.
        first: share of these whose top item has changed.
        change: mean absolute change of a bias, in units of scores, after subtracting the mean of
            all changes, which affects no rank.
        largest: largest absolute change.
    """

    queries: int
    first: float
    change: float
    largest: float

    def __str__(self) -> str:
        return (
            f'{self.first:.0%} of {self.queries} queries of the bank find another item first; '
            f'biases moved by {self.change:.3g} in the mean, {self.largest:.3g} at most'
        )


class Moves:
    """Compares the old and new ranking in one pass over all items.

    Args:
        bank: float32 [K, D], the queries; None: there are none.
    """

    def __init__(self, bank: Optional[np.ndarray]) -> None:
        some = np.linspace(0, len(bank) - 1, min(len(bank), QUERIES)) if bank is not None else []
        self._queries = None if bank is None else bank[np.asarray(some, int)]
        count = len(some)
        self._best = np.full((2, count), -np.inf)
        self._first = np.full((2, count), -1)
        self._seen = 0
        self._changes: list[np.ndarray] = []

    def see(self, vectors: np.ndarray, old: np.ndarray, new: np.ndarray) -> None:
        """Process vectors float32 [n, D] with their old and new biases."""
        if self._queries is not None:
            scores = self._queries @ vectors.T
            for row, biases in enumerate((old, new)):
                sums = scores + biases
                place = sums.argmax(1)
                best = sums[np.arange(len(sums)), place]
                better = best > self._best[row]
                self._best[row, better] = best[better]
                self._first[row, better] = self._seen + place[better]
        self._seen += len(vectors)
        self._changes.append(new - old)

    def told(self) -> Moved:
        """Return the effect on the ranking."""
        changes = np.concatenate([np.zeros(0, np.float32), *self._changes]).astype(float)
        changes = np.abs(changes - changes.mean()) if len(changes) else np.zeros(1)
        other = self._first[0] != self._first[1]
        return Moved(
            len(other),
            float(other.mean()) if len(other) else 0.0,
            float(changes.mean()),
            float(changes.max()),
        )
