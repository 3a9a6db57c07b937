"""The losses of a joint batch without its matrix: strip by strip, each process its share.

A strip, some texts against all videos, is made, reduced to vectors (:mod:`mmvtr.models.strips`) and
forgotten; in the backward pass it is made again.  So memory grows with the batch, not with its
square, and W processes do 1 / W of the work each.  What is reduced is gathered like embeddings are:
all processes end with the same loss, and with the gradients of one process that holds the joint
batch.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import torch
from torch import Tensor, nn

from mmvtr.dist import gather_nested
from mmvtr.models.annotation import Annotation
from mmvtr.models.in_turn import in_turn, some_rows
from mmvtr.models.strips import Sweep, as_new, whole_of
from mmvtr.structures import Levels


def whole_needed(model: nn.Module) -> str:
    """Why the losses of a retriever cannot be had in strips, in words; '' where they can.

    See :func:`mmvtr.models.strips.whole_of`.
    """
    if len(model.objectives):
        return f'objective {next(iter(model.objectives))!r} reads the target of the whole batch'
    supervision = model.supervision
    for part in [*([] if supervision is None else [supervision]), *model.losses.values()]:
        reason = whole_of(part)
        if reason:
            return f'{type(part).__name__}: {reason}'
    return ''


class Strip(NamedTuple):
    """What one of them leaves behind.

    Attributes:
        sums: of the supervision, 0-dim each.
        reductions: of each loss, by matrix; what each loss makes of it.
    """

    sums: dict[str, Tensor]
    reductions: dict[str, dict[str, Any]]


def losses_in_strips(
    model: nn.Module,
    texts: Levels,
    videos: Levels,
    known: Annotation,
    *,
    height: int,
    retrieval: bool = True,
) -> dict[str, Tensor]:
    """Losses and figures of the supervision, and ``loss_<name>`` of each loss.

    Args:
        model: a retriever for which :func:`whole_needed` is ''.
        texts, videos: levels of the joint batch.
        known: what the annotation says of it.
        height: texts a strip, at most.
        retrieval: with the losses, not with the supervision alone.
    """
    temperature = model.temperature()
    prepare, compare = in_two(model.similarity)
    t, v = prepare(texts), prepare(videos)
    pairs = known.pairs()
    supervision = model.supervision
    begun = None if supervision is None else supervision.begin(texts, videos, pairs)

    def supervised(rows: slice) -> Any:
        target = known.target(rows)
        return target if supervision is None else supervision.strip(begun, rows, target)[0]

    sweep = Sweep(
        known.shape, height, lambda rows: compare(some_levels(t, rows), v), known.target, supervised
    )
    losses = dict(model.losses) if retrieval else {}
    starts = {name: loss.begin(sweep, pairs, temperature) for name, loss in losses.items()}

    def strip(state: tuple, rows: slice) -> Strip:
        t, v, begun, starts, temperature = state
        target, sums = known.target(rows), {}
        if supervision is not None:
            target, sums = supervision.strip(begun, rows, target)
        matrices = compare(some_levels(t, rows), v) if losses else {}
        reductions = {
            name: loss.strip(starts[name], rows, matrices, target, temperature)
            for name, loss in losses.items()
        }
        return Strip(sums, reductions)

    state = (t, v, begun, starts, temperature)
    readers = nn.ModuleList([model.similarity, *losses.values()])
    if supervision is not None:
        readers.append(supervision)
    strips = in_turn(strip, state, sweep.strips, readers.parameters())
    if strips[0].sums or losses:
        strips = gather_nested(_join(strips, losses))
    sums, reductions = _join(strips, losses)
    found: dict[str, Tensor] = {}
    if supervision is not None:
        found.update(supervision.finish(begun, sums))
    for name, loss in losses.items():
        found[f'loss_{name}'] = loss.finish(starts[name], reductions[name])
    return found


def _join(parts: Sequence[Strip], losses: dict[str, nn.Module]) -> Strip:
    """Of strips, or of processes, in the order of their texts."""
    names = [*parts[0].sums]
    sums = sum(torch.stack([part.sums[name] for name in names]) for part in parts) if names else ()
    reductions = {
        name: {
            matrix: loss.join([part.reductions[name][matrix] for part in parts])
            for matrix in parts[0].reductions[name]
        }
        for name, loss in losses.items()
    }
    # One of several supervisions may sum up in float64, which the others' are not to become.
    kinds = (parts[0].sums[name].dtype for name in names)
    return Strip({name: x.to(kind) for name, x, kind in zip(names, sums, kinds)}, reductions)


def some_levels(levels: Levels, rows: slice) -> Levels:
    """Some of the items, see :func:`~mmvtr.models.in_turn.some_rows`."""
    return {name: level.map(lambda x: some_rows(x, rows)) for name, level in levels.items()}


def in_two(similarity: nn.Module) -> tuple[Callable[[Levels], Levels], Callable]:
    """What a similarity can do item by item, once for all strips, and what is left of it."""
    if hasattr(similarity, 'compare') and as_new(similarity, ('prepare', 'compare'), ('forward',)):
        return similarity.prepare, similarity.compare
    return lambda items: items, similarity
