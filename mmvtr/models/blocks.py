"""Contrastive losses of a joint batch in blocks, without its whole score matrix.

A block (some texts against all videos) is computed, reduced to vectors and freed; the backward pass
recomputes it.  So memory grows linearly with the batch, not quadratically, and each of W processes
does 1/W of the work.  The reduced vectors are gathered as embeddings are: all processes get the
same loss, and the gradients of one process that holds the joint batch.

Losses and supervisions that support blocks implement three steps: see :class:`BlockSupervision`
and :class:`~mmvtr.models.losses.matrix.ContrastiveLoss`.  If any other loss or supervision is used,
the whole matrix is computed (:func:`whole_needed`).
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvtr.dist import gather_nested, rank, world_size
from mmvtr.functional.losses.contrastive import Sums
from mmvtr.functional.values import recomputed
from mmvtr.models.gradient_cache import uncached_autocast
from mmvtr.models.target import Filled, Matrices, Target
from mmvtr.structures import Levels, take

#: Result of one block: figures of the supervision, and the sums of each loss by matrix and
#: direction.
Left = tuple[dict[str, Tensor], dict[str, dict[str, dict[str, Sums]]]]


class BlockSupervision(nn.Module):
    """A supervision in three steps, which :meth:`forward` runs on the whole matrix as one block.

    A block changes no state and draws no random numbers; its results are sums of one shape.  A
    subclass that overrides ``forward`` gets the whole matrix.
    """

    #: Why its configuration needs the whole matrix; '' if blocks suffice.
    whole = ''

    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Return the joint batch's target, and losses and figures to log."""
        begun = self.begin(texts, videos, Pairs.of(target.positives))
        target, sums = self.block(begun, slice(None), target)
        return target, self.finish(begun, sums)

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> Any:
        """Return what all blocks of a joint batch share; called once per batch."""

    def block(self, begun: Any, rows: slice, target: Target) -> Filled:
        """Return the target of the texts ``rows``, [R, V], with filled slots added, and sums."""
        raise NotImplementedError(f'{type(self).__name__} must define block()')

    def finish(self, begun: Any, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Turn the sums over all blocks into losses and figures."""
        return {}


def whole_needed(model: nn.Module) -> str:
    """Return why a retriever's losses need the whole matrix, as text; '' if blocks suffice."""
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
    """Whether no subclass overrides a method in ``dense`` without overriding one in ``parts``."""
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
    joint: Any,
    *,
    rows: int,
    retrieval: bool = True,
) -> dict[str, Tensor]:
    """Compute losses and figures of the supervision, and ``loss_<name>`` of each loss.

    Args:
        model: a retriever for which :func:`whole_needed` is ''.
        texts, videos: levels of the joint batch.
        joint: :class:`~mmvtr.models.annotation.JointIds` of the joint batch.
        rows: maximal number of texts per block.
        retrieval: whether to compute the losses too, not only the supervision.
    """
    temperature, supervision = model.temperature(), model.judge
    losses = dict(model.losses) if retrieval else {}
    prepare, compare = _in_two(model.similarity)
    t, v = prepare(texts), prepare(videos)
    pairs, blocks = joint.pairs(), own_blocks(joint.shape[0], rows)
    begun = None if supervision is None else supervision.begin(texts, videos, pairs)

    for loss in losses.values():
        loss.existing(compare(take(t, slice(0)), v))  # raises an error that lists the matrices

    def matrices() -> Iterator[Matrices]:
        for some in blocks:
            yield compare(take(t, some), v)

    starts = {name: loss.begin(matrices, pairs, temperature) for name, loss in losses.items()}

    def left_by(some: slice) -> Left:
        target, figures = joint.target(some), {}
        if supervision is not None:
            target, figures = supervision.block(begun, some, target)
        scores = compare(take(t, some), v) if losses else {}
        return figures, {
            name: loss.block(starts[name], some, scores, target, temperature)
            for name, loss in losses.items()
        }

    with uncached_autocast(temperature.device.type):
        left = _join([recomputed(left_by, some) for some in blocks])
    figures, sums = _join(gather_nested(left)) if left[0] or losses else left
    logs = {} if supervision is None else supervision.finish(begun, figures)
    return {**logs, **{f'loss_{name}': losses[name].finish(x) for name, x in sums.items()}}


def own_blocks(texts: int, rows: int) -> list[slice]:
    """Return this process' share of the texts in blocks; one empty block if it has no texts."""
    first, last = (texts * (rank() + i) // world_size() for i in range(2))
    starts = range(first, last, rows) or [first]
    return [slice(start, min(start + rows, last)) for start in starts]


def _join(parts: Sequence[Left]) -> Left:
    """Join the results of blocks, or of processes, in the order of their texts."""
    figures, sums = parts[0]
    return (
        {name: torch.stack([part[0][name] for part in parts]).sum(0) for name in figures},
        {
            loss: {
                matrix: {
                    way: terms.join([part[1][loss][matrix][way] for part in parts], way)
                    for way, terms in ways.items()
                }
                for matrix, ways in of_loss.items()
            }
            for loss, of_loss in sums.items()
        },
    )


def _in_two(similarity: nn.Module) -> tuple[Callable[[Levels], Levels], Callable]:
    """Split a similarity into its per-item part, run once for all blocks, and its comparison."""
    if hasattr(similarity, 'compare') and _defined_together(
        similarity, ('prepare', 'compare'), ('forward',)
    ):
        return similarity.prepare, similarity.compare
    return lambda items: items, similarity


class Pairs(NamedTuple):
    """The P annotated pairs of a joint batch of T texts and V videos.

    Attributes:
        rows, columns: int64 [P], ordered by text.
        shape: (T, V).
    """

    rows: Tensor
    columns: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, positives: Tensor) -> 'Pairs':
        """Make the pairs of positives bool [T, V]."""
        return cls(*positives.nonzero(as_tuple=True), tuple(positives.shape))

    def best(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the largest value of each text and of each video, -inf without a pair.


        float [P] -> float [T], [V].
        """
        best = []
        for index, size in zip((self.rows, self.columns), self.shape):
            none = values.new_full((size,), -torch.inf)
            best.append(none.scatter_reduce(0, index, values, 'amax'))
        return best[0], best[1]

    def means(self, vectors: Tensor, *, of: str) -> Tensor:
        """Return the mean vector of each item's partners, NaN without any.


        ``of='videos'``: float [V, D] -> [T, D], of each text; ``'texts'``: [T, D] -> [V, D].
        """
        index, partner = (self.rows, self.columns) if of == 'videos' else (self.columns, self.rows)
        size = self.shape[of == 'texts']
        sums = vectors.new_zeros(size, vectors.shape[1]).index_add(0, index, vectors[partner])
        return sums / index.bincount(minlength=size)[:, None]


def of_pairs(
    function: Callable[..., Tensor],
    texts: Sequence[Tensor],
    videos: Sequence[Tensor],
    pairs: Pairs,
    *,
    entries: int = 2**22,
) -> Tensor:
    """Apply ``function`` to the annotated pairs, in parts if there are many.

    Args:
        function: takes rows of all ``texts``, then of all ``videos``, float [p, ...] each;
            returns [p].
        texts, videos: float [T, ...] and [V, ...] each.
        entries: maximal number of tensor elements per part.

    Returns:
        float [P].
    """

    def some(rows: Tensor, columns: Tensor) -> Tensor:
        return function(*(x[rows] for x in texts), *(x[columns] for x in videos))

    size = max(1, entries // max(1, texts[0][:1].numel()))
    if len(pairs.rows) <= size:
        return some(pairs.rows, pairs.columns)
    parts = zip(pairs.rows.split(size), pairs.columns.split(size))
    return torch.cat([checkpoint(some, *part, use_reentrant=False) for part in parts])
