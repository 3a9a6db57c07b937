"""How several processes divide a job without communicating."""

from __future__ import annotations

import os
import zlib
from typing import Iterable, NamedTuple

import torch


class Share(NamedTuple):
    """A process's share of a job, computed without communication.

    Attributes:
        rank: this process's rank.
        world: number of processes.
        local: this process's rank on its machine.
    """

    rank: int
    world: int
    local: int

    @classmethod
    def of_environment(cls) -> Share:
        """Read the share from torchrun's variables; rank 0 of 1 without a launcher."""
        names = ('RANK', '0'), ('WORLD_SIZE', '1'), ('LOCAL_RANK', '0')
        return cls(*(int(os.environ.get(name, default)) for name, default in names))

    @property
    def device(self) -> str:
        """Return the process's own GPU if CUDA is available, else the CPU."""
        return f'cuda:{self.local}' if torch.cuda.is_available() else 'cpu'

    def places(self, ids: Iterable[str]) -> list[int]:
        """Return the positions of this process's ids, chosen by a hash of the id."""
        numbers = (zlib.crc32(name.encode()) for name in ids)
        return [i for i, number in enumerate(numbers) if number % self.world == self.rank]
