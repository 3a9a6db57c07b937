"""The best by score plus bias, from a search that knows the raw scores alone."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional

import numpy as np

#: How many candidates an exact search begins with, and by how much more it goes on.
FIRST, GROWTH = 128, 8


class Found(NamedTuple):
    """n items found for one query, best first.

    Attributes:
        keys: int64 [n], by which the engine knows them.
        raw: float32 [n].
        scores: float32 [n].
    """

    keys: np.ndarray
    raw: np.ndarray
    scores: np.ndarray


def best_with_bias(
    nearest: Callable[[int], tuple[np.ndarray, np.ndarray]],
    biases: Callable[[np.ndarray], np.ndarray],
    k: int,
    *,
    highest: float,
    candidates: Optional[int] = None,
) -> Found:
    """The k best by raw score plus bias.

    An item that is not among the m nearest has no more than the raw score of the m-th and the
    highest bias of all: once the k-th best sum is at least that, no further item belongs here.
    Until then m grows, so the result is exact if ``nearest`` is.

    Args:
        nearest: m -> keys int64 [m'] and raw scores float32 [m'] of the m nearest, best first;
            fewer if there are not as many.
        biases: of keys, float32 [n].
        k: 1 or more.
        highest: no bias is above it.
        candidates: look at that many and no further, whatever may be missed.
    """
    m = max(k, candidates or FIRST)
    while True:
        keys, raw = nearest(m)
        scores = raw + biases(keys)
        order = np.argsort(-scores, kind='stable')[:k]
        found = Found(keys[order], raw[order], scores[order])
        if len(keys) < m or candidates is not None:
            return found
        if found.scores[-1] >= raw[-1] + highest:
            return found
        m *= GROWTH
