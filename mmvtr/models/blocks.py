"""Contrastive losses of a joint batch without its matrix: block by block, each process its share.

A block, some texts against all videos, is made, reduced to vectors and forgotten; in the backward
pass it is made again.  So memory grows with the batch, not with its square, and W processes do 1/W
of the work each.  What is left of a block is gathered as embeddings are: all processes end with the
same loss, and with the gradients of one process that holds the joint batch.

Losses and supervisions that can do so say the same in three steps: see :class:`BlockSupervision`
and :class:`~mmvtr.models.losses.matrix.ContrastiveLoss`.  All others need not know of blocks: with
one of them the whole matrix is made (:func:`whole_needed`).
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvtr.dist import gather_nested, rank, world_size
from mmvtr.functional.losses.contrastive import Sums, join_sums
from mmvtr.models.gradient_cache import uncached_autocast
from mmvtr.models.pairs import Pairs
from mmvtr.models.target import Target
from mmvtr.structures import Levels, take

#: What one block leaves: figures of the supervision, 0-dim each, and the sums of each loss by
#: matrix and direction.
Left = tuple[dict[str, Tensor], dict[str, dict[str, dict[str, Sums]]]]


class BlockSupervision(nn.Module):
    """A supervision in three steps, of which the whole matrix is one block.

    A block changes no state and draws no random numbers; what it leaves is sums, 0-dim.  A subclass
    with a ``forward`` of its own gets the whole matrix.
    """

    #: Why it wants the whole matrix as it is configured; '' where blocks will do.
    whole = ''

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Levels and target of the joint batch -> its target, and losses and figures to log."""
        begun = self.begin(texts, videos, Pairs.of(target.positives))
        target, sums = self.block(begun, slice(None), target)
        return target, self.finish(begun, sums)

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> Any:
        """Once for a joint batch: what its blocks share."""

    def block(self, begun: Any, rows: slice, target: Target) -> tuple[Target, dict[str, Tensor]]:
        """The target of the texts ``rows``, [R, V] -> the same with more, and sums."""
        raise NotImplementedError(f'{type(self).__name__} must define block()')

    def finish(self, begun: Any, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums over all blocks -> losses and figures."""
        return {}


def whole_needed(model: nn.Module) -> str:
    """Why a retriever's losses need the whole matrix, in words; '' where blocks will do."""
    if len(model.objectives):
        return f'objective {next(iter(model.objectives))!r} reads the target of the whole batch'
    parts = [] if model.supervision is None else [model.supervision]
    for part in [*parts, *model.losses.values()]:
        dense = not _defined_together(part, ('begin', 'block'), ('forward', 'compute'))
        reason = 'it has no blocks' if dense else part.whole
        if reason:
            return f'{type(part).__name__} makes the whole matrix: {reason}'
    return ''


def _defined_together(module: nn.Module, parts: Sequence[str], dense: Sequence[str]) -> bool:
    """Whether no subclass has changed one of its methods ``dense`` without one of ``parts``."""
    kinds = [vars(kind) for kind in type(module).__mro__]
    changed, adapted = (
        next((i for i, kind in enumerate(kinds) if any(n in kind for n in names)), len(kinds))
        for names in (dense, parts)
    )
    return adapted <= changed


def losses_in_blocks(
    model: nn.Module,
    texts: Levels,
    videos: Levels,
    known: Any,
    *,
    rows: int,
    retrieval: bool = True,
) -> dict[str, Tensor]:
    """Losses and figures of the supervision, and ``loss_<name>`` of each loss.

    Args:
        model: a retriever for which :func:`whole_needed` is ''.
        texts, videos: levels of the joint batch.
        known: its :class:`~mmvtr.models.annotation.JointIds`.
        rows: texts a block, at most.
        retrieval: with the losses, not with the supervision alone.
    """
    temperature, supervision = model.temperature(), model.judge
    losses = dict(model.losses) if retrieval else {}
    prepare, compare = _in_two(model.similarity)
    t, v = prepare(texts), prepare(videos)
    pairs, blocks = known.pairs(), own_blocks(known.shape[0], rows)
    begun = None if supervision is None else supervision.begin(texts, videos, pairs)

    for loss in losses.values():
        loss.known(compare(take(t, slice(0)), v))  # or it says which matrices there are

    def matrices() -> Iterator[dict[str, Tensor]]:
        for some in blocks:
            yield compare(take(t, some), v)

    starts = {name: loss.begin(matrices, pairs, temperature) for name, loss in losses.items()}

    def left_by(some: slice) -> Left:
        target, figures = known.target(some), {}
        if supervision is not None:
            target, figures = supervision.block(begun, some, target)
        scores = compare(take(t, some), v) if losses else {}
        return figures, {
            name: loss.block(starts[name], some, scores, target, temperature)
            for name, loss in losses.items()
        }

    with uncached_autocast(temperature.device.type):
        made = [
            checkpoint(left_by, some, use_reentrant=False, preserve_rng_state=False)
            for some in blocks
        ]
    left = _join(made)
    figures, sums = _join(gather_nested(left)) if left[0] or losses else left
    found = {} if supervision is None else supervision.finish(begun, figures)
    return {**found, **{f'loss_{name}': losses[name].finish(one) for name, one in sums.items()}}


def own_blocks(texts: int, rows: int) -> list[slice]:
    """This process' share of the joint batch's texts, in blocks; one of no text if it has none."""
    first, last = (texts * (rank() + i) // world_size() for i in range(2))
    starts = range(first, last, rows) or [first]
    return [slice(start, min(start + rows, last)) for start in starts]


def _join(parts: Sequence[Left]) -> Left:
    """Of blocks, or of processes, in the order of their texts."""
    figures, sums = parts[0]
    return (
        {name: torch.stack([part[0][name] for part in parts]).sum(0) for name in figures},
        {
            loss: {
                matrix: {
                    way: join_sums([part[1][loss][matrix][way] for part in parts], way)
                    for way in ways
                }
                for matrix, ways in of_loss.items()
            }
            for loss, of_loss in sums.items()
        },
    )


def _in_two(similarity: nn.Module) -> tuple[Callable[[Levels], Levels], Callable]:
    """What a similarity can do item by item, once for all blocks, and what is left of it."""
    if hasattr(similarity, 'compare') and _defined_together(
        similarity, ('prepare', 'compare'), ('forward',)
    ):
        return similarity.prepare, similarity.compare
    return lambda items: items, similarity
