"""Compare a case on a device and in a precision with float64 on the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from gpu_check.cases import Case

#: Largest allowed error of a value or gradient, relative to the reference's largest entry.
BAR = 1e-4
#: The same under autocast, with inputs rounded for both computations: 2^-8 and 2^-11 are half a
#: step of one rounding.
LOW_BARS = {torch.bfloat16: 2e-2, torch.float16: 5e-3}


class Found(NamedTuple):
    """Outputs, and gradients of the differentiable inputs, as plain tensors on the CPU."""

    values: list[Tensor]
    gradients: dict[str, Tensor]


def run(
    case: Case,
    device: torch.device,
    dtype: torch.dtype,
    *,
    autocast: Optional[torch.dtype] = None,
) -> Found:
    """Run a case on a device, with inputs of ``dtype``.

    Args:
        autocast: precision of torch.autocast, if any.
    """
    inputs = {}
    for name, x in case.inputs.items():
        if x.is_floating_point():
            x = x.to(device, dtype).requires_grad_(case.differentiable)
        inputs[name] = x.to(device)
    how = nullcontext() if autocast is None else torch.autocast(device.type, autocast)
    with how:
        out = case.call(SimpleNamespace(**inputs))
    values = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
    terms = [_weighted(x) for x in values if x.requires_grad]
    gradients = {}
    leaves = {name: x for name, x in inputs.items() if x.requires_grad}
    if terms:
        found = torch.autograd.grad(sum(terms), list(leaves.values()), allow_unused=True)
        gradients = {name: x.cpu() for name, x in zip(leaves, found) if x is not None}
    return Found([x.detach().cpu() for x in values], gradients)


def _weighted(x: Tensor) -> Tensor:
    """Return a sum with distinct weights; entries that are not finite count as 0."""
    weight = torch.linspace(1, 2, max(x.numel(), 1), device=x.device)[: x.numel()].view(x.shape)
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return (x.masked_fill(~x.isfinite(), 0.0) * weight.to(x.dtype)).sum()


def rounded(case: Case, dtype: torch.dtype) -> Case:
    """Return the same case with inputs rounded to ``dtype``."""
    inputs = {
        name: x.to(dtype).double() if x.is_floating_point() else x
        for name, x in case.inputs.items()
    }
    return case._replace(inputs=inputs)


def error(mine: Found, reference: Found) -> dict[str, float]:
    """Return the largest relative errors of values and gradients; infinite if shapes differ."""
    values = [_error(a, b) for a, b in zip(mine.values, reference.values)]
    if len(mine.values) != len(reference.values):
        values = [float('inf')]
    errors = dict(value=max(values, default=0.0))
    if mine.gradients.keys() != reference.gradients.keys():
        errors['gradient'] = float('inf')
    elif mine.gradients:
        # One scale for all, as a gradient that is zero up to rounding has none of its own.
        largest = max(float(x.abs().max()) for x in reference.gradients.values())
        errors['gradient'] = max(
            _error(mine.gradients[name], x, floor=largest / 1e3)
            for name, x in reference.gradients.items()
        )
    return errors


def _error(mine: Tensor, reference: Tensor, floor: float = 0.0) -> float:
    if mine.shape != reference.shape:
        return float('inf')
    if not reference.numel():
        return 0.0
    mine, reference = mine.double(), reference.double()
    odd = ~reference.isfinite()
    if not torch.equal(mine[odd].nan_to_num(nan=0.5), reference[odd].nan_to_num(nan=0.5)):
        return float('inf')
    mine, reference = mine[~odd], reference[~odd]
    if not mine.isfinite().all():
        return float('inf')
    if not reference.numel():
        return 0.0
    scale = max(float(reference.abs().max()), floor, 1e-30)
    return float((mine - reference).abs().max()) / scale


def check(case: Case, device: torch.device) -> dict[str, Any]:
    """Return the errors of float32 on the device against the reference on the CPU."""
    cpu = torch.device('cpu')
    reference = run(case, cpu, case.reference)
    return error(run(case, device, torch.float32), reference)


def check_low(case: Case, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Return the errors under autocast, with inputs rounded to ``dtype``."""
    case = rounded(case, dtype)
    reference = run(case, torch.device('cpu'), torch.float64)
    return error(run(case, device, dtype, autocast=dtype), reference)
