"""Shape letters, and the few records that travel between the rooms.

T texts, V videos, N items of either, F frames, L tokens, D dimensions, S samples,
W processes.  Rows are texts and columns are videos, everywhere; higher is better.
A mask is boolean, True = valid, and travels with its tokens.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Sequence

import torch
from torch import Tensor


class Embedding(NamedTuple):
    """What an encoder or a head knows of N items at one level.

    Attributes:
        mean: float [N, D], the global vector (not normalised unless its maker says so).
        tokens: float [N, L, D] or None, local vectors (frames, words).
        mask: bool [N, L] or None, True where a token is real.
        log_std: float [N, D] or None, log standard deviation of a Gaussian around ``mean``.
    """

    mean: Tensor
    tokens: Optional[Tensor] = None
    mask: Optional[Tensor] = None
    log_std: Optional[Tensor] = None

    def map(self, function: Callable[[Tensor], Tensor]) -> 'Embedding':
        """Apply ``function`` to every field that is not None."""
        return Embedding(*(None if x is None else function(x) for x in self))

    def global_only(self) -> 'Embedding':
        """The same items without their tokens."""
        return Embedding(self.mean, log_std=self.log_std)


#: What ``encode_video`` and ``encode_text`` return: one Embedding a level.
Levels = dict[str, Embedding]


def cat_levels(parts: Sequence[Levels]) -> Levels:
    """Concatenate the items of several batches, level by level.

    Tokens are padded to the longest batch (mask False there).
    """
    return {level: _cat([part[level] for part in parts]) for level in parts[0]}


def _cat(parts: Sequence[Embedding]) -> Embedding:
    mean = torch.cat([p.mean for p in parts])
    log_std = None if parts[0].log_std is None else torch.cat([p.log_std for p in parts])
    if parts[0].tokens is None:
        return Embedding(mean, log_std=log_std)
    length = max(p.tokens.shape[1] for p in parts)
    tokens = torch.cat([_pad(p.tokens, length) for p in parts])
    mask = torch.cat([_pad(p.mask, length) for p in parts])
    return Embedding(mean, tokens, mask, log_std)


def _pad(x: Tensor, length: int) -> Tensor:
    if x.shape[1] == length:
        return x
    return torch.cat([x, x.new_zeros(x.shape[0], length - x.shape[1], *x.shape[2:])], dim=1)


class Relation(NamedTuple):
    """What is known about T texts and V videos of an evaluation set.

    Attributes:
        positives: bool [T, V], the annotated matches.
        truth: bool [T, V] or None, whether the text truly holds (known for planted data);
            reaches metrics, monitors and oracles only, never a method.
        relevance: float [T, V] in [0, 1] or None, graded relevance.
        text_ids: T annotation row ids.
        video_ids: V video ids.
    """

    positives: Tensor
    truth: Optional[Tensor] = None
    relevance: Optional[Tensor] = None
    text_ids: Sequence[str] = ()
    video_ids: Sequence[str] = ()
