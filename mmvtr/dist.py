"""Gather tensors over processes with exact gradients.

Every process computes the same loss on the joint batch.  The backward pass of the gather sums
the gradients of all processes, and DistributedDataParallel then takes their mean: each parameter
(before or after the gather) ends with the gradient of one process holding the joint batch.
Works on gloo (CPU) and NCCL; without a process group every function is the identity.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from mmvtr.structures import Embedding, Levels, pad_tokens


def world_size() -> int:
    """Return the number of processes; 1 if no process group has been initialised."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


class _GatherRows(torch.autograd.Function):
    """Concatenates the rows of all processes; ranks may hold different numbers of rows, or none."""

    @staticmethod
    def forward(ctx, x: Tensor, alike: bool) -> Tensor:
        sizes = [torch.zeros(1, dtype=torch.long, device=x.device) for _ in range(world_size())]
        dist.all_gather(sizes, torch.tensor([len(x)], device=x.device))
        counts = [int(size) for size in sizes]
        padded = x.new_zeros(max(counts), *x.shape[1:])
        padded[: len(x)] = x
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        ctx.start = sum(counts[: dist.get_rank()])
        ctx.length = len(x)
        ctx.alike = alike
        return torch.cat([part[:count] for part, count in zip(parts, counts)])

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        rows = slice(ctx.start, ctx.start + ctx.length)
        if ctx.alike:
            return grad[rows] * world_size(), None
        grad = grad.clone(memory_format=torch.contiguous_format)  # other functions may hold it, too
        dist.all_reduce(grad)
        return grad[rows], None


def gather_rows(x: Tensor) -> Tensor:
    """Return the rows of all processes in rank order: [N_r, ...] -> [sum of N_r, ...].

    Trailing dimensions must agree.  Differentiable for floating-point ``x``.
    """
    return x if world_size() == 1 else _GatherRows.apply(x, False)


def gather_nested(nest: Any) -> list[Any]:
    """Gather nested tuples and dicts of tensors from all processes, in rank order, in two messages.

    All processes must compute the same function of the result: each then has the same gradient, and
    the backward pass sends nothing.  Embeddings that each process scores against only some of the
    texts (blocks) need :func:`gather_rows`.

    Args:
        nest: the same structure on all processes, with at least one tensor; leaves may be None.
            First dimensions may differ between processes, other dimensions and dtypes may not.

    Returns:
        One nest per process.
    """
    if world_size() == 1:
        return [nest]
    leaves, structure = tree_flatten(nest)
    tensors = [x for x in leaves if x is not None]
    real, whole = ([x for x in tensors if x.is_floating_point() == is_real] for is_real in (1, 0))
    device = tensors[0].device
    # Integer tensors first, preceded by the number of elements of each tensor of this process.
    header = torch.tensor([x.numel() for x in (*whole, *real)], device=device)
    numbers = gather_rows(torch.cat([header, *(x.flatten().long() for x in whole)]))
    kinds = {x.dtype for x in real} or {torch.float32}
    wide = max(kinds, key=lambda kind: torch.finfo(kind).bits)
    flat = torch.cat([header.new_zeros(0, dtype=wide), *(x.flatten().to(wide) for x in real)])
    values = _GatherRows.apply(flat, True)
    nests = []
    for _ in range(world_size()):
        sizes, numbers = numbers[: len(header)].tolist(), numbers[len(header) :]
        count = sum(sizes[: len(whole)])
        parts = [*numbers[:count].split(sizes[: len(whole)])]
        numbers = numbers[count:]
        count = sum(sizes[len(whole) :])
        parts += values[:count].split(sizes[len(whole) :])
        values = values[count:]
        shaped = {
            id(x): part.to(x.dtype).view(-1, *x.shape[1:]) if x.dim() else part.to(x.dtype)[0]
            for x, part in zip((*whole, *real), parts)
        }
        filled = [None if x is None else shaped[id(x)] for x in leaves]
        nests.append(tree_unflatten(filled, structure))
    return nests


class _SumProcesses(torch.autograd.Function):
    """Sum over all processes in the forward and the backward pass."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad


def sum_processes(x: Tensor) -> Tensor:
    """Return the sum over processes of a tensor; differentiable like :func:`gather_rows`."""
    return x if world_size() == 1 else _SumProcesses.apply(x)


def gather_levels(levels: Levels) -> Levels:
    """Gather all tensors of each level, rows in rank order.

    Tokens are padded to the longest of all processes (mask False there).  Callers drop unused
    tokens first (:func:`mmvtr.structures.drop_tokens`): tokens are the bulk of the traffic.
    """
    return {name: gather_embedding(e) for name, e in levels.items()}


def gather_embedding(embedding: Embedding) -> Embedding:
    """Gather one level, as :func:`gather_levels` does."""
    if embedding.tokens is not None:
        length = _longest(embedding.tokens)
        embedding = embedding._replace(
            tokens=pad_tokens(embedding.tokens, length), mask=pad_tokens(embedding.mask, length)
        )
    return embedding.map(gather_rows)


def _longest(x: Tensor) -> int:
    """Return the largest x.shape[1] of all processes."""
    if world_size() == 1:
        return x.shape[1]
    width = torch.tensor([x.shape[1]], device=x.device)
    dist.all_reduce(width, op=dist.ReduceOp.MAX)
    return int(width)


def gather_padded(x: Tensor, fill: int) -> Tensor:
    """Gather integer [N, M] whose M differs between processes, padded with ``fill``."""
    if world_size() == 1:
        return x
    wide = x.new_full((len(x), _longest(x)), fill)
    wide[:, : x.shape[1]] = x
    return gather_rows(wide)
