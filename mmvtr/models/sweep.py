"""The losses of a joint batch without its matrix: strip by strip, each process its share.

A strip, some texts against all videos, is made, reduced to vectors (:mod:`mmvtr.models.strips`) and
forgotten; in the backward pass it is made again.  So memory grows with the batch, not with its
square, and W processes do 1 / W of the work each.  What is reduced is gathered like embeddings are:
all processes end with the same loss, and with the gradients of one process that holds the joint
batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mmvtr.dist import gather_rows
from mmvtr.models.annotation import Annotation
from mmvtr.models.in_turn import in_turn
from mmvtr.models.strips import Reduction, Sweep, gather, join
from mmvtr.structures import Levels, take


def whole_needed(model: nn.Module) -> str:
    """Why the losses of a retriever cannot be had in strips, in words; '' where they can.

    A subclass that changes the dense form (``forward`` of a supervision, ``compute`` of a loss) has
    to bring a ``strip`` of its own.
    """
    if len(model.objectives):
        return f'objective {next(iter(model.objectives))!r} reads the target of the whole batch'
    supervision = model.supervision
    parts = [] if supervision is None else [(supervision, 'forward')]
    for part, dense in [*parts, *((loss, 'compute') for loss in model.losses.values())]:
        reason = getattr(part, 'whole', '') if _speaks(part, dense) else 'it has no strip()'
        if reason:
            return f'{type(part).__name__}: {reason}'
    return ''


def _speaks(module: nn.Module, dense: str) -> bool:
    """Whether its form in strips is as new as its ``dense`` form."""
    order = type(module).__mro__

    def newest(*names: str) -> int:
        found = (i for i, kind in enumerate(order) if any(name in vars(kind) for name in names))
        return next(found, len(order))

    return hasattr(module, 'strip') and newest('begin', 'strip', 'finish') <= newest(dense)


class Strip(NamedTuple):
    """What one of them leaves behind.

    Attributes:
        sums: of the supervision, 0-dim each.
        reductions: of each loss, by matrix.
    """

    sums: dict[str, Tensor]
    reductions: dict[str, dict[str, Reduction]]


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
    temperature, similarity = model.temperature(), model.similarity
    t, v = prepared(similarity, texts), prepared(similarity, videos)
    compare = getattr(similarity, 'compare', similarity)
    sweep = Sweep(known.shape, height, lambda rows: compare(take(t, rows), v))
    pairs = known.pairs()
    supervision = model.supervision
    begun = None if supervision is None else supervision.begin(texts, videos, pairs)
    losses = dict(model.losses) if retrieval else {}
    starts = {name: loss.begin(sweep, pairs, temperature) for name, loss in losses.items()}

    def strip(state: tuple, rows: slice) -> Strip:
        t, v, begun, starts, temperature = state
        target, sums = known.target(rows), {}
        if supervision is not None:
            target, sums = supervision.strip(begun, rows, target)
        matrices = compare(take(t, rows), v) if losses else {}
        reductions = {
            name: loss.strip(starts[name], rows, matrices, target, temperature)
            for name, loss in losses.items()
        }
        return Strip(sums, reductions)

    state = (t, v, begun, starts, temperature)
    readers = nn.ModuleList([similarity, *losses.values()])
    if supervision is not None:
        readers.append(supervision)
    strips = in_turn(strip, state, sweep.strips, readers.parameters())
    found: dict[str, Tensor] = {}
    if supervision is not None:
        names = strips[0].sums
        sums = torch.stack([torch.stack([one.sums[n] for n in names]) for one in strips]).sum(0)
        found.update(supervision.finish(begun, dict(zip(names, gather_rows(sums[None]).sum(0)))))
    for name, loss in losses.items():
        reductions = {
            matrix: gather(join([one.reductions[name][matrix] for one in strips]))
            for matrix in strips[0].reductions[name]
        }
        found[f'loss_{name}'] = loss.finish(reductions)
    return found


def prepared(similarity: nn.Module, levels: Levels) -> Levels:
    """What a similarity can do item by item, once for all strips."""
    prepare = getattr(similarity, 'prepare', None)
    return levels if prepare is None else prepare(levels)
