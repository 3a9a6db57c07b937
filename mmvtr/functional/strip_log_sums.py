"""The sums of :mod:`mmvtr.functional.log_sums` of a strip, with a backward pass of their own.

A strip is made twice, and each operation on its scores is one more look at all of them.  Here the
sums of both directions and the few positives share one gradient, made in place.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mmvtr.functional.log_sums import LOG_ZERO, LogSums, check_form, log_sums, log_weights
from mmvtr.functional.precision import at_least_float32


def strip_log_sums(
    scores: Tensor,
    positives: Tensor,
    pairs: tuple[Tensor, Tensor],
    temperature: float | Tensor,
    weights: Mapping[str, Optional[Tensor]],
    form: str,
    *,
    ambiguous: Optional[Tensor] = None,
) -> tuple[Tensor, dict[str, LogSums]]:
    """Logits of the positives, and :func:`~mmvtr.functional.log_sums.log_sums` of each direction.

    Args:
        scores: float [R, V]; half precision is computed in float32.
        positives: bool [R, V].
        pairs: int64 [P] twice, where they are.
        temperature: divides the scores; a float or a 0-dim tensor.
        weights: by direction, one or two of ``'t2v'`` and ``'v2t'``: float [R, V] >= 0, or None.
        form, ambiguous: see :func:`~mmvtr.functional.contrastive.contrastive`.

    Returns:
        Float [P], and sums by direction.

    Raises:
        ValueError: unknown form or direction.

    Example:
        A text has one positive of score 1, and a negative of score 0. ::

            >>> own = torch.eye(2).bool()
            >>> pairs = own.nonzero(as_tuple=True)
            >>> strip_log_sums(torch.eye(2), own, pairs, 1.0, {'t2v': None}, 'pooled')
            (tensor([1., 1.]), {'t2v': LogSums(negative=tensor([0., 0.]), shared=None)})
    """
    scores = at_least_float32(scores)
    added = {
        id(x): log_weights(torch.ones_like(scores) if x is None else x, positives)
        for x in weights.values()
    }
    ways = []
    for direction, x in weights.items():
        check_form(form, direction)
        ways.append((direction, id(x)))
        if ambiguous is not None:
            spared = added[id(x)].masked_fill(~ambiguous, LOG_ZERO)
            ways.append((direction, id(spared)))
            added[id(spared)] = spared
    places = {key: place for place, key in enumerate(added)}
    own, *sums = _LogSums.apply(
        tuple((direction, places[key]) for direction, key in ways),
        pairs,
        scores,
        torch.as_tensor(temperature, dtype=scores.dtype, device=scores.device),
        *added.values(),
    )
    found = {}
    for direction in weights:
        negative, shared = sums.pop(0), None
        if ambiguous is not None:
            shared = sums.pop(0)
        elif form == 'own_pair':
            shared = torch.full_like(negative, LOG_ZERO)
        found[direction] = LogSums(negative, shared)
    return own, found


class _LogSums(torch.autograd.Function):
    """Of logits plus what is added to them; and the logits of some entries."""

    @staticmethod
    def forward(
        ctx: Any,
        ways: tuple[tuple[str, int], ...],
        pairs: tuple[Tensor, Tensor],
        scores: Tensor,
        temperature: Tensor,
        *added: Tensor,
    ) -> tuple[Tensor, ...]:
        logits = scores / temperature
        matrices = [logits + x for x in added]
        sums = [log_sums(matrices[which], 'pooled', way).negative for way, which in ways]
        ctx.ways, ctx.pairs = ways, pairs
        ctx.save_for_backward(scores, temperature, *matrices, *sums)
        return (logits[pairs], *sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_own: Tensor, *grads: Tensor) -> tuple[Any, ...]:
        scores, temperature, *rest = ctx.saved_tensors
        matrices, sums = rest[: -len(grads)], rest[-len(grads) :]
        shares: list[Any] = [None] * len(matrices)
        for (way, which), log_sum, grad in zip(ctx.ways, sums, grads):
            dim = 1 if way == 't2v' else 0
            share = (matrices[which] - log_sum.unsqueeze(dim)).exp_().mul_(grad.unsqueeze(dim))
            shares[which] = share if shares[which] is None else shares[which].add_(share)
        of_logits = (shares[0] if len(shares) == 1 else sum(shares)).to(scores.dtype)
        # What is added there is a constant, which takes no gradient.
        of_logits.index_put_(ctx.pairs, of_own, accumulate=True)
        of_temperature = None
        if ctx.needs_input_grad[3]:
            of_temperature = -(of_logits * scores).sum() / temperature.square()
        return (None, None, of_logits / temperature, of_temperature, *shares)
