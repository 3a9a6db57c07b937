"""Shape letters, and the records that are passed between subpackages.

T texts, V videos, N items (texts or videos), F frames, L tokens, D dimensions, S samples,
W processes.  Rows are texts and columns are videos, everywhere; higher is better.
A mask is boolean, True = valid, and travels with its tokens.
"""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union

import torch
from torch import Tensor

T = TypeVar('T')


class Embedding(NamedTuple):
    """Representation of N items at one level, from an encoder or a head.

    Attributes:
        mean: float [N, D], the global vector (not normalised unless its source says so).
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
        """Return the same items without their tokens."""
        return Embedding(self.mean, log_std=self.log_std)


#: Return type of ``encode_video`` and ``encode_text``: level name -> Embedding.
Levels = dict[str, Embedding]


def take(levels: Levels, rows: Union[slice, Tensor]) -> Levels:
    """Return the items at ``rows``."""
    return {name: level.map(lambda x: x[rows]) for name, level in levels.items()}


def same_level(one: Embedding, other: Embedding) -> bool:
    """Return whether two levels hold equal values."""
    pairs = list(zip(one, other, strict=True))
    if any((a is None) != (b is None) for a, b in pairs):
        return False
    return all(
        a is b or (a.shape == b.shape and torch.equal(a, b)) for a, b in pairs if a is not None
    )


def under(prefix: str, named: Mapping[str, T]) -> dict[str, T]:
    """Return the entries whose names begin with a prefix, by the rest of their names."""
    return {k.removeprefix(prefix): x for k, x in named.items() if k.startswith(prefix)}


def drop_tokens(levels: Levels, keep: Sequence[str] = ()) -> Levels:
    """Return the same items, with tokens only at the levels ``keep``."""
    return {name: e if name in keep else e.global_only() for name, e in levels.items()}


def with_tokens(embedding: Embedding, level: str, side: str) -> Embedding:
    """Return an embedding, which must have tokens.

    Args:
        embedding: of any number of items.
        level, side: its level, and 'texts' or 'videos', for the message.

    Raises:
        ValueError: it has none.
    """
    if embedding.tokens is None:
        raise ValueError(f'level {level!r} of the {side} carries no tokens')
    return embedding


def of_side(inputs: dict[str, Tensor], side: str) -> dict[str, Tensor]:
    """Return the ``inputs`` of the texts (``'text'``), or of the videos (``'video'``)."""
    keys = (side, 'frame_mask' if side == 'video' else 'text_mask')
    return {k: x for k, x in inputs.items() if k in keys or k.startswith(f'{side}_')}


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
    tokens = torch.cat([pad_tokens(p.tokens, length) for p in parts])
    mask = torch.cat([pad_tokens(p.mask, length) for p in parts])
    return Embedding(mean, tokens, mask, log_std)


def pad_tokens(x: Tensor, length: int) -> Tensor:
    """Pad tokens with zeros (False) at the end: [N, L, ...] -> [N, length, ...]."""
    if x.shape[1] == length:
        return x
    return torch.cat([x, x.new_zeros(x.shape[0], length - x.shape[1], *x.shape[2:])], dim=1)


class Directed(NamedTuple):
    """Scores that differ by direction, as from some test-time transforms.

    Attributes:
        t2v: float [T, V], read by rows: each text among all videos.
        v2t: float [T, V], read by columns: each video among all texts.
    """

    t2v: Tensor
    v2t: Tensor


class Relation(NamedTuple):
    """Annotations of the T texts and V videos of an evaluation set.

    Attributes:
        positives: bool [T, V], the annotated matches.
        truth: bool [T, V] or None, whether the text truly describes the video (known for synthetic
            data); used by metrics, monitors and oracles only, never by a method.
        relevance: float [T, V] in [0, 1] or None, graded relevance.
        text_ids: T annotation row ids.
        video_ids: V video ids.
        moment_ratio: float64 [T] or None, the fraction of its video that a text describes (NaN =
            not known), for videos that are longer than what their text describes.
        video_lengths: float64 [V] or None, native frames if known, else seconds.
        length_unit: unit of the lengths, 'frames' or 'seconds'.
        text_actions, video_actions: T and V tuples of (verb class, noun class), or empty.
        judgments: float64 [T, V] of both directions or None, human relevance judgments of pairs;
            NaN = not judged.
    """

    positives: Tensor
    truth: Optional[Tensor] = None
    relevance: Optional[Tensor] = None
    text_ids: Sequence[str] = ()
    video_ids: Sequence[str] = ()
    moment_ratio: Optional[Tensor] = None
    video_lengths: Optional[Tensor] = None
    length_unit: str = ''
    text_actions: Sequence[tuple[tuple[int, int], ...]] = ()
    video_actions: Sequence[tuple[tuple[int, int], ...]] = ()
    judgments: Optional[Directed] = None
