"""A test case: a function with inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, NamedTuple

import torch
from torch import Tensor

import mmvtr.functional

TAU = 0.07


class Case(NamedTuple):
    """A test case: a function with inputs.

    Attributes:
        name: the function's name, and after a slash the variant.
        call: inputs by name -> a tensor, or tuples and dicts of tensors.
        inputs: float64, integer and bool tensors by name, on the CPU.
        low: whether training runs it under autocast.
        differentiable: whether gradients are compared, too.
        reference: float64; float32 if random numbers are drawn in the precision of the inputs.
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


def make(x: SimpleNamespace, name: str, keys: str, call: Callable, **how: Any) -> Case:
    """Return a case with the inputs of ``x`` whose names are in ``keys``."""
    return Case(name, call, {key: getattr(x, key) for key in keys.split()}, **how)


def called(x: SimpleNamespace, name: str, keys: str, **options: Any) -> Case:
    """Return a case that calls a function of ``mmvtr.functional`` directly.

    Args:
        x: inputs.
        name: see :class:`Case`.
        keys: its arguments, in order: ``'scores ~positives weights=text_u'`` are two positional
            ones, the second negated, and a keyword.
        **options: fields of the case, and further keyword arguments.
    """
    function = getattr(mmvtr.functional, name.partition('/')[0])
    how = {key: options.pop(key) for key in Case._fields if key in options}
    words = [word.rpartition('=') for word in keys.split()]

    def call(i: SimpleNamespace) -> Any:
        given = [(key, _input(i, word)) for key, _, word in words]
        named = {key: value for key, value in given if key}
        return function(*(value for key, value in given if not key), **named, **options)

    return make(x, name, ' '.join(word.lstrip('~') for _, _, word in words), call, **how)


def _input(i: SimpleNamespace, word: str) -> Tensor:
    return ~getattr(i, word[1:]) if word[0] == '~' else getattr(i, word)


def random_generator() -> torch.Generator:
    """Return a generator on the CPU, so that draws do not depend on the device."""
    return torch.Generator().manual_seed(1)
