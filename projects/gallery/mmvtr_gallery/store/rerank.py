"""Find the best items by score plus bias with an engine that ranks by raw scores only."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional

import numpy as np

#: Number of candidates that an exact search begins with, and the factor by which it grows.
FIRST, GROWTH = 128, 8


class Found(NamedTuple):
    """The n items found for one query, best first.

    Attributes:
        keys: the engine's keys, int64 [n].
        raw: float32 [n].
        scores: float32 [n].
    """

    keys: np.ndarray
    raw: np.ndarray
    scores: np.ndarray


def best_with_bias(
    nearest: Callable[[int], tuple[np.ndarray, np.ndarray]],
    biases: Callable[[np.ndarray], np.ndarray],
    rows: Callable[[np.ndarray], np.ndarray],
    k: int,
    *,
    highest: float,
    candidates: Optional[int] = None,
    first: int = FIRST,
) -> Found:
    """Return the k best items by raw score plus bias; of equal ones the lowest row comes first.

    The sum of an item outside the m nearest is at most the m-th raw score plus the highest bias.
    Once the k-th best sum is above that, no other item can be among the k best.  Until then m
    grows, so the result is exact if ``nearest`` is.

    Args:
        nearest: m -> keys int64 [m'] and raw scores float32 [m'] of the m nearest, best first;
            fewer if there are fewer.
        biases: keys -> biases, float32 [n].
        rows: keys -> numbers that increase with the items' rows, [n].
        k: 1 or more.
        highest: upper bound of all biases.
        candidates: stop after this many candidates, which may miss items; None: exact.
        first: number of candidates to begin with.
    """
    m = max(k + 1, candidates or first)
    while True:
        keys, raw = nearest(m)
        scores = raw + biases(keys)
        order = np.lexsort((rows(keys), -scores))[:k]
        found = Found(keys[order], raw[order], scores[order])
        if len(keys) < m or candidates is not None:
            return found
        if found.scores[-1] > raw[-1] + highest:
            return found
        m *= GROWTH
