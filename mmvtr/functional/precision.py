"""Scores and divergences are computed in float32 or better, whatever autocast hands over."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """float16 and bfloat16 [...] -> float32; float32 and float64 unchanged.

    Example:
        ::

            >>> at_least_float32(torch.ones(2, dtype=torch.bfloat16)).dtype
            torch.float32
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
