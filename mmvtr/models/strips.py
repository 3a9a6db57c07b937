"""What a strip of the score matrix leaves behind when it is forgotten: vectors, never a matrix.

A strip is some texts against all videos of the joint batch.  Its sums over the entries of a text
are complete; those over the entries of a video are a share, to be joined with the other strips'.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvtr.dist import gather_rows, rank, world_size
from mmvtr.functional.log_sums import LogSums, join_entries
from mmvtr.functional.precision import at_least_float32


class Reduction(NamedTuple):
    """Sums of a contrastive loss over a strip, or over several that follow each other.

    Attributes:
        texts: of its R texts, or None where the loss does not look that way.
        videos: of all V videos over its texts, or None.
        own: float [P], the logits of its positives.
        rows, columns: int64 [P], which text and which video of the joint batch they are.
        counts: float [R], how much each text counts as an anchor, or None where all count 1.
    """

    texts: Optional[LogSums]
    videos: Optional[LogSums]
    own: Tensor
    rows: Tensor
    columns: Tensor
    counts: Optional[Tensor] = None


def join(parts: Sequence[Reduction]) -> Reduction:
    """Of strips, or of processes, in the order of their texts."""
    texts = [part.texts for part in parts]
    videos = [part.videos for part in parts]
    return Reduction(
        None if texts[0] is None else _cat(texts),
        None if videos[0] is None else join_entries(videos),
        *(None if field[0] is None else torch.cat(field) for field in zip(*(p[2:] for p in parts))),
    )


def _cat(parts: Sequence[LogSums]) -> LogSums:
    fields = zip(*parts)
    return LogSums(*(None if field[0] is None else torch.cat(field) for field in fields))


def whole_of(part: nn.Module) -> str:
    """Why a supervision or a loss must have the whole matrix, in words; '' where strips will do.

    A subclass that changes the dense form (``forward`` of a supervision or a loss, ``compute`` or
    ``normalise`` of a loss) has to bring a ``strip`` of its own.
    """
    dense = ('forward', 'compute', 'normalise')
    if hasattr(part, 'strip') and as_new(part, ('begin', 'strip', 'finish'), dense):
        return getattr(part, 'whole', '')
    return 'it has no strip()'


def as_new(module: nn.Module, parts: Sequence[str], dense: Sequence[str]) -> bool:
    """Whether no subclass has changed its methods ``dense`` without one of its ``parts``."""
    order = type(module).__mro__

    def newest(names: Sequence[str]) -> int:
        found = (i for i, kind in enumerate(order) if any(name in vars(kind) for name in names))
        return next(found, len(order))

    return newest(parts) <= newest(dense)


class Pairs(NamedTuple):
    """The P annotated pairs of a joint batch of T texts and V videos.

    Attributes:
        rows, columns: int64 [P], by text.
        shape: (T, V).
    """

    rows: Tensor
    columns: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, positives: Tensor) -> 'Pairs':
        """Of positives bool [T, V]."""
        return cls(*positives.nonzero(as_tuple=True), tuple(positives.shape))

    def best(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Largest value of each text and of each video, -inf where it has no pair.

        float [P] -> float [T], [V].
        """
        best = []
        for index, size in zip((self.rows, self.columns), self.shape):
            none = values.new_full((size,), -torch.inf)
            best.append(none.scatter_reduce(0, index, values, 'amax'))
        return best[0], best[1]

    def means(self, vectors: Tensor, *, of: str) -> Tensor:
        """Mean vector of the own partners, NaN where there are none.

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
    """``function`` of the annotated pairs' rows, some at a time where they are many.

    Args:
        function: of rows of all ``texts``, then of all ``videos``, float [p, ...] each; gives [p].
        texts, videos: float [T, ...] and [V, ...] each.
        entries: numbers of a tensor that are taken at a time.

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


class Sweep:
    """This process' share of the texts of a joint batch, in strips.

    Shares are of one size to a text, wherever the texts come from.

    Args:
        shape: (T, V) of the joint batch.
        height: texts a strip, at most.
        matrices: from some texts to their score matrices [R, V], by name.
        annotated: from some texts to what the annotation says of them, a target.
        supervised: the same, of the supervision: one target, or one a matrix.

    Attributes:
        strips: slices of the T texts; one of no text where there is none to do.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        height: int,
        matrices: Callable[[slice], dict[str, Tensor]],
        annotated: Callable[[slice], Any],
        supervised: Callable[[slice], Any],
    ) -> None:
        first, last = (shape[0] * (rank() + i) // world_size() for i in range(2))
        starts = range(first, last, height) or [first]
        self.strips = [slice(start, min(start + height, last)) for start in starts]
        self.matrices, self.annotated, self.supervised = matrices, annotated, supervised

    def scores(self, name: str) -> Iterator[Tensor]:
        """Float [R, V] of each strip, at least float32."""
        for rows in self.strips:
            yield at_least_float32(self.matrices(rows)[name])

    @staticmethod
    def joint(log_sums: Tensor) -> Tensor:
        """Logs of sums over all processes, float [V] -> [V]."""
        return gather_rows(log_sums[None]).logsumexp(0)
