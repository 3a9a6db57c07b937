"""Which items an epoch visits, and in which order.

An item is asked for by ``ItemKey(seed, epoch, index)``, not by a bare index: so the epoch reaches
workers that live through all epochs, and data are a function of the key alone.
"""

from __future__ import annotations

import math
from typing import Iterator, NamedTuple, Optional, Sized

import numpy as np
from mmengine.dist import get_dist_info, sync_random_seed
from torch.utils.data import Sampler

from mmvtr.registry import DATA_SAMPLERS


class ItemKey(NamedTuple):
    """Key that determines all random choices of an item: seed, epoch, index.

    Attributes:
        seed: non-negative seed of the run, the same on all ranks.
        epoch: epoch number from 0.
        index: position in the dataset.
    """

    seed: int
    epoch: int
    index: int


@DATA_SAMPLERS.register_module()
class EpochSampler(Sampler):
    """Visit every item once an epoch, in an order drawn from (seed, epoch), split over ranks.

    mmengine's loops call :meth:`set_epoch`; its Runner passes ``dataset`` and ``seed``.

    Args:
        dataset: anything with a length.
        seed: non-negative; None = one drawn on rank 0 and shared.
        shuffle: False keeps the dataset's order.
        round_up: repeat a few first items so that all ranks get equally many.
    """

    def __init__(
        self,
        dataset: Sized,
        seed: Optional[int] = None,
        *,
        shuffle: bool = True,
        round_up: bool = True,
    ) -> None:
        self.dataset = dataset
        self.seed = sync_random_seed() if seed is None else seed
        self.shuffle = shuffle
        self.round_up = round_up
        self.rank, self.world_size = get_dist_info()
        self.epoch = 0

    def __iter__(self) -> Iterator[ItemKey]:
        order = np.arange(len(self.dataset))
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(order)
        if self.round_up:
            order = np.resize(order, math.ceil(len(order) / self.world_size) * self.world_size)
        for index in order[self.rank :: self.world_size].tolist():
            yield ItemKey(self.seed, self.epoch, index)

    def __len__(self) -> int:
        """Return how many items this rank visits in an epoch."""
        spare = self.world_size - 1 if self.round_up else self.world_size - 1 - self.rank
        return (len(self.dataset) + spare) // self.world_size

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        self.epoch = epoch
