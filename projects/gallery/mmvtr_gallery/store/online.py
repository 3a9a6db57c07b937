"""A bounded sample of served queries, from which a refit can follow a drift."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Union

import numpy as np
import torch

from mmvtr.errors import UserError
from mmvtr.storage import read_tensors, write_tensors


class Reservoir:
    """A reservoir sample of up to ``capacity`` queries, determined by the seed and their order.

    With ``memory=None`` each query ever offered is kept with the same probability (Vitter's
    algorithm R).  With a memory of M queries, the probability to keep a query that is t queries old
    decays as exp(-t / M), so the sample follows a drift.

    Only vectors are stored: no text, no time, no user.

    Args:
        dim: width D of a query.
        capacity: maximal number of vectors.
        memory: M, at least the capacity; None: all queries count alike.
        seed: seed of the draws.

    Attributes:
        seen: number of offered queries.
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
        """Offer queries, float32 [Q, D], in their order."""
        for query in queries:
            number, self.seen = self.seen, self.seen + 1
            if self._size < self.capacity:
                self._kept[self._size] = query
                self._size += 1
                continue
            among = number + 1 if self.memory is None else min(number + 1, self.memory)
            # Each query has its own generator, so that a reservoir read from disk continues
            # identically.
            slot = np.random.Generator(np.random.Philox(key=self.seed, counter=number)).integers(
                among
            )
            if slot < self.capacity:
                self._kept[slot] = query

    def queries(self) -> np.ndarray:
        """Return a copy of the kept queries, float32 [n, D]."""
        return self._kept[: self._size].copy()

    def forget(self) -> None:
        """Remove all queries, and start over."""
        self._size = self.seen = 0

    def write(self, path: Union[str, Path]) -> None:
        """Write the vectors; the file appears when it is complete."""
        write_tensors(
            dict(queries=torch.from_numpy(self.queries()), seen=torch.tensor(self.seen)), path
        )

    def read(self, path: Union[str, Path]) -> None:
        """Continue from what :meth:`write` wrote.

        Raises:
            FileNotFoundError, RuntimeError: the file is missing, damaged, or of another width.
        """
        tensors = read_tensors(path, kind='queue of served queries')
        kept, seen = (tensors.get(name) for name in ('queries', 'seen'))
        if kept is None or seen is None or kept.shape[1:] != self._kept.shape[1:]:
            raise UserError(f'{path} is not a queue of queries [n, {self._kept.shape[1]}]')
        self.restore(kept.numpy(), int(seen))

    def restore(self, kept: np.ndarray, seen: int) -> None:
        """Continue from float32 [n, D] that were kept of ``seen`` queries."""
        self._size, self.seen = min(len(kept), self.capacity), seen
        self._kept[: self._size] = kept[: self._size]


def reservoir_of(dim: int, online: Mapping[str, Any]) -> Reservoir:
    """Return a new, empty sample with a store's options.

    Raises:
        ValueError: an unknown option, no capacity, invalid numbers.
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
