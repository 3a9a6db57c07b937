"""A function with inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, NamedTuple

import torch
from torch import Tensor

TAU = 0.07


class Case(NamedTuple):
    """A function with inputs.

    Attributes:
        name: the function's, and behind a slash which of its ways.
        call: from inputs by name to a tensor, or tuples and dicts of some.
        inputs: float64, integer and bool tensors by name, on the CPU.
        low: whether training meets it under autocast.
        differentiable: whether gradients are compared, too.
        reference: float64; float32 where random numbers are drawn in the precision of the inputs.
    """

    name: str
    call: Callable[[SimpleNamespace], Any]
    inputs: dict[str, Tensor]
    low: bool = True
    differentiable: bool = True
    reference: torch.dtype = torch.float64

    @property
    def function(self) -> str:
        return self.name.partition('/')[0]


def make(name: str, x: SimpleNamespace, keys: str, call: Callable, **how: Any) -> Case:
    """A case of the inputs of ``x`` whose names are in ``keys``."""
    return Case(name, call, {key: getattr(x, key) for key in keys.split()}, **how)


def random_generator() -> torch.Generator:
    """On the CPU, as all of the project's: draws then do not depend on the device."""
    return torch.Generator().manual_seed(1)
