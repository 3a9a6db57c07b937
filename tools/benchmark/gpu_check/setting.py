"""Device and size of the check, which all sections get."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

#: The repository's root, whose configs are read.
ROOT = Path(__file__).resolve().parents[3]


class Setting(NamedTuple):
    """Device and size of the check.

    Attributes:
        device: the device to check.
        smoke: tiny sizes, which test that everything runs, but not its speed.
    """

    device: torch.device
    smoke: bool = False

    @property
    def low(self) -> tuple[torch.dtype, ...]:
        """Return the precisions of autocast."""
        both = (torch.bfloat16, torch.float16)
        return both if self.device.type == 'cuda' else both[:1]

    @property
    def repeats(self) -> int:
        """Return the number of repetitions of a timing."""
        return 1 if self.smoke else 5
