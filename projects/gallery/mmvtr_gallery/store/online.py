"""A bounded sample of the queries that a store has answered: what a refit follows a drift with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Union

import numpy as np
import torch

from mmvtr.storage import read_tensors, write_tensors


class Reservoir:
    """Up to ``capacity`` query vectors, drawn by a seed and the number of the query alone.

    With ``memory=None`` each query ever offered is in it with the same probability (Vitter's
    algorithm R).  With a memory of M queries, a query that is t queries old is in it with a
    probability that falls as exp(-t / M): the sample follows a drift.

    Only vectors are kept: no text, no time, no user.

    Args:
        dim: D of a query.
        capacity: the most vectors kept.
        memory: M, at least the capacity; None: all queries count alike.
        seed: of the draws.

    Attributes:
        seen: queries that were offered.
    """

    def __init__(
        self, dim: int, *, capacity: int, memory: Optional[int] = None, seed: int = 0
    ) -> None:
        if capacity < 1:
            raise ValueError(f'a queue of served queries keeps 1 or more, not {capacity}')
        if memory is not None and memory < capacity:
            raise ValueError(f'a memory of {memory} queries is below the capacity {capacity}')
        self.capacity, self.memory, self.seed = capacity, memory, seed
        self.seen = self._size = 0
        self._kept = np.empty((capacity, dim), np.float32)

    def __len__(self) -> int:
        return self._size

    def offer(self, queries: np.ndarray) -> None:
        """Let float32 [Q, D] take part, in their order."""
        for query in queries:
            number, self.seen = self.seen, self.seen + 1
            if self._size < self.capacity:
                self._kept[self._size] = query
                self._size += 1
                continue
            among = number + 1 if self.memory is None else min(number + 1, self.memory)
            # Each query has a generator of its own, so a queue that was read again goes on alike.
            slot = np.random.Generator(np.random.Philox(key=self.seed, counter=number)).integers(
                among
            )
            if slot < self.capacity:
                self._kept[slot] = query

    def queries(self) -> np.ndarray:
        """A copy of those that are kept: float32 [n, D]."""
        return self._kept[: self._size].copy()

    def forget(self) -> None:
        """Keep none of them, and begin anew."""
        self._size = self.seen = 0

    def write(self, path: Union[str, Path]) -> None:
        """Write the vectors; the file appears when it is complete."""
        write_tensors(
            dict(queries=torch.from_numpy(self.queries()), seen=torch.tensor(self.seen)), path
        )

    def read(self, path: Union[str, Path]) -> None:
        """Go on from what :meth:`write` wrote.

        Raises:
            FileNotFoundError, RuntimeError: no such file, or a damaged one, or of another width.
        """
        tensors = read_tensors(path, kind='queue of served queries')
        kept, seen = (tensors.get(name) for name in ('queries', 'seen'))
        if kept is None or seen is None or kept.shape[1:] != self._kept.shape[1:]:
            raise RuntimeError(f'{path} is no queue of queries [n, {self._kept.shape[1]}]')
        self.restore(kept.numpy(), int(seen))

    def restore(self, kept: np.ndarray, seen: int) -> None:
        """Go on from float32 [n, D] that were kept of ``seen`` queries."""
        self._size, self.seen = min(len(kept), self.capacity), seen
        self._kept[: self._size] = kept[: self._size]


def reservoir_of(dim: int, online: Mapping[str, Any]) -> Reservoir:
    """A new sample by the options of a store.

    Raises:
        ValueError: an unknown option, none of the capacity, numbers that do not fit.
    """
    unknown = sorted(set(online) - {'capacity', 'memory', 'seed', 'refit_every'})
    if unknown or 'capacity' not in online:
        raise ValueError(
            f'online: capacity, memory, seed and refit_every expected, got {str(dict(online))[:80]}'
        )
    every = online['refit_every']
    if every is not None and every < 1:
        raise ValueError(f'online: refit_every must be 1 or more, not {str(every)[:80]}')
    return Reservoir(dim, **{key: x for key, x in online.items() if key != 'refit_every'})
