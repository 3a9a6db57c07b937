"""Where and how large: what all sections are given."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

#: The project, whose configs are read.
ROOT = Path(__file__).resolve().parents[3]


class Setting(NamedTuple):
    """Where the sections run.

    Attributes:
        device: what is checked.
        smoke: tiny sizes, which show that all of it runs, and no speed.
    """

    device: torch.device
    smoke: bool = False

    @property
    def low(self) -> tuple[torch.dtype, ...]:
        """Precisions of autocast."""
        both = (torch.bfloat16, torch.float16)
        return both if self.device.type == 'cuda' else both[:1]

    @property
    def repeats(self) -> int:
        """Turns of a timing."""
        return 1 if self.smoke else 5
