"""The annotated pairs of a joint batch, without its matrix."""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


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
