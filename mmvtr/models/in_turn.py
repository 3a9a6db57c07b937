"""A function of one strip after the other, whose graph is made when its gradient is due.

``torch.utils.checkpoint`` does that for one call.  For hundreds of them what each leaves behind
would lie between the large tensors of the next ones, as holes in the heap in which these find no
room: a process grew by a strip a strip, to 22 GB where 1 was needed.  Here it lies in blocks.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten


def in_turn(
    function: Callable[[Any, slice], Any],
    state: Any,
    strips: Sequence[slice],
    parameters: Iterable[Tensor],
) -> list[Any]:
    """``[function(state, strip) for strip in strips]``.

    Args:
        function: gives nested tuples and dicts of tensors [...] or None, which are of one structure
            for all strips.  Called twice for each: it must be deterministic.
        state: nested tuples and dicts of all tensors that it reads and that somebody has computed.
        strips: rows of each, one or more.
        parameters: those that it reads beside the state, or more.

    Raises:
        TypeError: the state holds an object that may hide tensors.
    """
    leaves, structure = tree_flatten(state)
    hidden = [x for x in leaves if not isinstance(x, (Tensor, int, float, str, type(None)))]
    if hidden:
        raise TypeError(
            f'what begin() gives must be nested tuples and dicts of tensors, not a '
            f'{type(hidden[0]).__name__}: no gradient would leave it'
        )
    turns = _Turns(function, structure, leaves, strips)
    learnt = [p for p in parameters if p.requires_grad]
    flat = _InTurn.apply(turns, len(turns.given), *turns.given, *learnt)
    count = len(flat) // len(strips)
    return [
        tree_unflatten(list(flat[start : start + count]), turns.result)
        for start in range(0, len(flat), count)
    ]


def some_rows(x: Tensor, rows: slice) -> Tensor:
    """``x[rows]``, [T, ...] -> [R, ...], for a function that :func:`in_turn` calls.

    A gradient of all T rows for each strip, 0 but for its own, would take a tenth of a large
    batch's time.  Of a tensor of the state it is made for the R rows alone.
    """
    taken = getattr(x, 'taken_in_turn', None)
    if taken is None:
        return x[rows]
    taken.append((rows, x.detach()[rows].requires_grad_()))
    return taken[-1][1]


class _Turns:
    """A function, its state and its strips; computes as autocast had it when this was made.

    Attributes:
        given: tensors of the state through which gradients leave.
        result: how what the function gives is nested.
    """

    def __init__(
        self,
        function: Callable[[Any, slice], Any],
        structure: Any,
        leaves: list[Any],
        strips: Sequence[slice],
    ) -> None:
        self.function, self.structure, self.leaves = function, structure, leaves
        self.strips = strips
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad]
        self.given = [leaves[i] for i in self.places]
        self.result: Any = None
        devices = [name for name in ('cpu', 'cuda') if torch.is_autocast_enabled(name)]
        self.casts = [(name, torch.get_autocast_dtype(name)) for name in devices]

    def call(self, given: Sequence[Tensor], rows: slice) -> list[Any]:
        """What the function makes of a strip, flat, with ``given`` in the state."""
        leaves = list(self.leaves)
        for i, x in zip(self.places, given):
            leaves[i] = x
        with ExitStack() as stack:
            for device, dtype in self.casts:
                # Each call casts for itself: what is cast without a graph is of no use with one.
                stack.enter_context(torch.autocast(device, dtype=dtype, cache_enabled=False))
            found = self.function(tree_unflatten(leaves, self.structure), rows)
        flat, self.result = tree_flatten(found)
        return flat


class _Block:
    """Where one tensor of each strip is kept: as large as if all were like the first."""

    def __init__(self, first: Tensor, strips: int) -> None:
        self.free = first.new_empty(first.numel() * strips)

    def keep(self, x: Tensor) -> Tensor:
        if x.numel() > len(self.free):  # more than the first had
            return x.clone()
        place, self.free = self.free[: x.numel()], self.free[x.numel() :]
        return place.view(x.shape).copy_(x)


class _InTurn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, turns: _Turns, count: int, *read: Tensor) -> tuple[Any, ...]:
        ctx.turns, ctx.count = turns, count
        ctx.set_materialize_grads(False)
        blocks: list[Any] = []
        kept: list[Any] = []
        for rows in turns.strips:
            found = turns.call(read[:count], rows)
            if not blocks:
                blocks = [None if x is None else _Block(x, len(turns.strips)) for x in found]
            kept += [None if x is None else block.keep(x) for x, block in zip(found, blocks)]
        whole = [x for x in kept if x is not None and not x.is_floating_point()]
        ctx.mark_non_differentiable(*whole)
        ctx.save_for_backward(*read)
        return tuple(kept)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        turns, read = ctx.turns, ctx.saved_tensors
        given = [x.detach().requires_grad_() for x in read[: ctx.count]]
        inputs = [*given, *read[ctx.count :]]
        sums: list[Any] = [None] * len(read)
        width = len(grads) // len(turns.strips)
        for turn, rows in enumerate(turns.strips):
            for x in given:
                x.taken_in_turn = []
            with torch.enable_grad():
                found = turns.call(given, rows)
            taken = [(i, some, part) for i, x in enumerate(given) for some, part in x.taken_in_turn]
            places: list[Any] = [(i, ...) for i in range(len(inputs))]
            places += [(i, some) for i, some, _ in taken]
            due = [
                (x, grad)
                for x, grad in zip(found, grads[turn * width : (turn + 1) * width])
                if grad is not None and x.requires_grad
            ]
            if due:
                outputs, into = zip(*due)
                wanted = [*inputs, *(part for *_, part in taken)]
                parts = torch.autograd.grad(outputs, wanted, into, allow_unused=True)
                for (i, some), part in zip(places, parts):
                    if part is not None:
                        sums[i] = torch.zeros_like(read[i]) if sums[i] is None else sums[i]
                        sums[i][some].add_(part)
        return (None, None, *sums)
