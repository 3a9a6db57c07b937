"""Scores of texts and videos from their words and frames, in tiles.

A score pools the similarities of L words and F frames.  They exist for one tile of texts x videos
at a time, in the backward pass too: no [T, V, L, F] tensor is made.
"""

from __future__ import annotations

import math
from typing import Iterator, NamedTuple, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mmvtr.functional.values import arrays_too, at_least_float32, check_one_of, check_valid, product

__all__ = [
    'below_shortlist',
    'paired_token_scores',
    'token_scores',
    'token_weights',
]

SIDES = ('both', 'words', 'frames')


@arrays_too
def token_weights(logits: Tensor, mask: Tensor) -> Tensor:
    """Return softmax over the valid tokens of each item: float, bool [N, L] -> float [N, L].

    These are the weights of DRL's WTI.  An item without a valid token gets zeros.

    Example:
        ::

            >>> token_weights(torch.zeros(1, 3), torch.tensor([[1, 1, 0]]).bool())
            tensor([[0.5000, 0.5000, 0.0000]])
    """
    logits = logits.masked_fill(~mask, torch.finfo(torch.float32).min)
    return logits.softmax(-1).masked_fill(~mask, 0.0)


@arrays_too
def token_scores(
    words: Tensor,
    word_mask: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    *,
    side: str = 'both',
    word_weights: Optional[Tensor] = None,
    frame_weights: Optional[Tensor] = None,
    official_mask: bool = False,
    entries: int = 2**22,
) -> Tensor:
    """Return token-wise scores of all pairs (UATVR Eq. 7-8 with means for sums; WTI of DRL).

        s = 1/2 (sum_n a_n max_m <w_n, f_m> + sum_m b_m max_n <w_n, f_m>)

    over valid words n and frames m; tokens are not normalised, so pass unit vectors.
    If tokens tie, the gradient goes to one of them, as with ``torch.max``.

    A backward pass keeps 2 bytes per token and pair (6 if the weights need a gradient).

    Args:
        words: float [T, L, D]; half precision is computed in float32.
        word_mask: bool [T, L].
        frames: float [V, F, D].
        frame_mask: bool [V, F].
        side: ``'words'``: the first sum only, without the half (as ColBERT's MaxSim);
            ``'frames'``: the second; ``'both'``.
        word_weights: float [T, L], a; default 1 / number of valid words.  Not read at padding.
        frame_weights: float [V, F], b, likewise.
        official_mask: the masking of DRL's and UATVR's code, which multiplies the similarities by
            the masks: a padded token has similarity 0 to all and takes part in each max, so scores
            depend on whether an item is padded.  Needed for their weights.
        entries: largest number of similarities in memory (at least those of one pair).

    Returns:
        float [T, V].

    Raises:
        ValueError: an unknown side, shapes that do not fit, or an item without a valid token.

    Example:
        The one frame equals the first of two words: (1/2 + 1) / 2, and 1/2 for words only. ::

            >>> words, frames = torch.eye(2)[None], torch.tensor([[[1.0, 0.0]]])
            >>> tokens = (words, torch.ones(1, 2).bool(), frames, torch.ones(1, 1).bool())
            >>> token_scores(*tokens), token_scores(*tokens, side='words')
            (tensor([[0.7500]]), tensor([[0.5000]]))
    """
    _same_width(words, frames)
    text = _pack('text', words, word_mask, word_weights, official_mask)
    video = _pack('video', frames, frame_mask, frame_weights, official_mask)
    a, b = _sides(side, text.weights, video.weights)
    tiles = list(_tiles(text.lengths, video.lengths, entries))
    return _MaxPooled.apply(text.tokens, a, video.tokens, b, text.order, video.order, tiles)


@arrays_too
def paired_token_scores(
    words: Tensor,
    word_mask: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    columns: Tensor,
    *,
    side: str = 'both',
    word_weights: Optional[Tensor] = None,
    frame_weights: Optional[Tensor] = None,
    official_mask: bool = False,
    entries: int = 2**22,
) -> Tensor:
    """Return :func:`token_scores` of some videos of each text, for evaluation.

    Args:
        words: float [T, L, D]; half precision is computed in float32.
        word_mask: bool [T, L].
        frames: float [V, F, D].
        frame_mask: bool [V, F].
        columns: int64 [T, k], the videos.
        side, word_weights, frame_weights, official_mask: see :func:`token_scores`, also for errors.
        entries: bounds the memory only if no gradient is required.

    Returns:
        float [T, k].

    Example:
        ::

            >>> words, frames = torch.eye(2)[None], torch.tensor([[[0.0, 0.0]], [[1.0, 0.0]]])
            >>> tokens = (words, torch.ones(1, 2).bool(), frames, torch.ones(2, 1).bool())
            >>> paired_token_scores(*tokens, torch.tensor([[1]]))
            tensor([[0.7500]])
    """
    _same_width(words, frames)
    text = _pack('text', words, word_mask, word_weights, official_mask)
    video = _pack('video', frames, frame_mask, frame_weights, official_mask)
    place = video.order.argsort()
    scores = words.new_zeros(columns.shape, dtype=text.tokens.dtype)
    longest, dim = video.tokens.shape[1:]
    room = entries // max(columns.shape[1] * longest, 1)
    # A text needs its words' similarities and a copy of its videos' frames.
    for rows in _cut([length + dim for length in text.lengths], room):
        items = text.order[rows]
        chosen = place[columns[items]]
        w, f = text.tokens[rows, : text.lengths[rows.start]], video.tokens[chosen]
        sims = product(w, f.flatten(1, 2).mT).unflatten(2, f.shape[1:3])
        a = text.weights[rows, : w.shape[1]]
        sides = _sides(side, a[..., None], video.weights[chosen].mT)
        scores[items] = _pool(sims.mT, *sides)
    return scores


@arrays_too
def below_shortlist(pooled: Tensor, columns: Tensor, reranked: Tensor) -> Tensor:
    """Return scores of a shortlist, with the other columns below it in the order of ``pooled``.

    A column outside the shortlist gets a whole number: minus the number of columns that ``pooled``
    ranks above it in its row, minus an offset that keeps it below every re-ranked score.  Nothing
    is rounded, so orders and ties are preserved.  Compare values only within a row.

    Args:
        pooled: float [T, V].
        columns: int64 [T, k], the shortlist of each row.
        reranked: float [T, k], its scores.

    Returns:
        float [T, V].

    Example:
        Videos 1 and 2 are re-ranked; 0 was before 3. ::

            >>> pooled, columns = torch.tensor([[0.3, 0.9, 0.8, 0.1]]), torch.tensor([[1, 2]])
            >>> below_shortlist(pooled, columns, torch.tensor([[0.2, 0.7]]))
            tensor([[-3.0000,  0.2000,  0.7000, -4.0000]])
    """
    ordered = pooled.sort(1).values
    before = pooled.shape[1] - torch.searchsorted(ordered, pooled.contiguous(), right=True)
    floor = reranked.amin(1, keepdim=True).floor()
    return (floor - 1 - before).scatter(1, columns, reranked)


# -- packing and tiling ------------------------------------------------------------------------


class _Packed(NamedTuple):
    """N items, the longest first, each with its valid tokens first.

    Attributes:
        tokens: float [N, L', D] with L' the longest length.
        weights: float [N, L'], 0 after the valid tokens.
        lengths: N numbers of tokens to read, decreasing.
        order: int64 [N], the original position of each item.
    """

    tokens: Tensor
    weights: Tensor
    lengths: list[int]
    order: Tensor


def _pack(
    kind: str, tokens: Tensor, mask: Tensor, weights: Optional[Tensor], official: bool
) -> _Packed:
    """Drop the padding; neutralise the padding that longer items require.

    Places after the valid tokens repeat the first token, which changes no maximum: similarities
    need no mask.  With ``official`` they are zero vectors, at least one if an item has padding.
    """
    count = _count(kind, tokens, mask)
    length = (count + 1).clamp(max=mask.shape[1]) if official else count
    length, order = length.sort(descending=True, stable=True)
    lengths = length.tolist()
    valid_first = mask[order].int().argsort(dim=1, descending=True, stable=True)
    valid_first = valid_first[:, : lengths[0] if lengths else 0]
    place = torch.arange(valid_first.shape[1], device=mask.device)
    real = place < count[order, None]
    pick = (order[:, None], torch.where(real, valid_first, valid_first[:, :1]))
    packed = at_least_float32(tokens)[pick]
    if official:
        packed = packed.masked_fill(~real[..., None], 0.0)
    if weights is None:
        weights = real.to(packed.dtype) / count[order, None]
    else:
        weights = weights.to(packed.dtype)[pick].masked_fill(~real, 0.0)
    return _Packed(packed, weights, lengths, order)


def _same_width(texts: Tensor, videos: Tensor) -> None:
    if texts.shape[-1] != videos.shape[-1]:
        raise ValueError(
            f'texts have {texts.shape[-1]} dimensions, videos {videos.shape[-1]}: need the same'
        )


def _count(kind: str, tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the number of valid tokens of each item, int64 [N]; ValueError if one has none."""
    if tokens.shape[:2] != mask.shape:
        raise ValueError(
            f'{kind} tokens {tuple(tokens.shape)} need a mask {tuple(tokens.shape[:2])}, '
            f'not {tuple(mask.shape)}'
        )
    check_valid(mask, kind, 'token')
    return mask.sum(1)


def _sides(side: str, a: Tensor, b: Tensor) -> tuple[Optional[Tensor], Optional[Tensor]]:
    """Return the weights of the two sums, None for a sum that is left out."""
    check_one_of(SIDES, side=side)
    if side == 'both':
        return a / 2, b / 2
    return (a, None) if side == 'words' else (None, b)


class _Tile(NamedTuple):
    """Some packed texts x some packed videos, cut to the longest of each."""

    rows: slice
    words: int
    columns: slice
    frames: int


def _tiles(texts: Sequence[int], videos: Sequence[int], entries: int) -> Iterator[_Tile]:
    """Yield tiles of at most ``entries`` similarities, near square if the sizes allow."""
    if not texts or not videos:
        return
    width = max(math.isqrt(entries), entries // (len(texts) * texts[0]))
    for columns in _cut(videos, width):
        frames = videos[columns.start]
        for rows in _cut(texts, entries // (frames * (columns.stop - columns.start))):
            yield _Tile(rows, texts[rows.start], columns, frames)


def _cut(lengths: Sequence[int], room: int) -> Iterator[slice]:
    """Yield runs of items, the longest first, with at most ``room`` tokens, at least one item."""
    start = 0
    while start < len(lengths):
        stop = min(start + max(1, room // lengths[start]), len(lengths))
        yield slice(start, stop)
        start = stop


# -- max pooling -------------------------------------------------------------------------------


def _pool(sims: Tensor, a: Optional[Tensor], b: Optional[Tensor]) -> Tensor:
    """Return pooled scores [t, v] of similarities [t, L, F, v], given weights of words [t, L, 1]
    and frames [t or 1, F, v]."""
    words = 0 if a is None else (sims.amax(2) * a).sum(1)
    frames = 0 if b is None else (sims.amax(1) * b).sum(1)
    return words + frames


class _MaxPooled(torch.autograd.Function):
    """Packed words [T, L, D], weights [T, L] or None, frames and their weights -> scores [T, V].

    The forward pass keeps where each maximum was, not the similarities: their gradient is zero
    anywhere else.  Frames are laid out [F, v] in a tile, so that both maxima run over outer
    dimensions, which is much faster than over the last one.
    """

    @staticmethod
    def forward(ctx, words, a, frames, b, row_order, column_order, tiles) -> Tensor:
        keep = any(ctx.needs_input_grad)
        keep_maxima = ctx.needs_input_grad[1], ctx.needs_input_grad[3]
        scores, saved = words.new_zeros(len(words), len(frames)), []
        for tile in tiles:
            left, right = _operands(words, frames, tile)
            sims = product(left, right.t()).view(*_shape(tile))
            weights = _tile_weights(a, b, tile)
            if keep:
                part, pooled = _pool_and_keep(sims, weights, keep_maxima)
                saved += pooled
            else:
                part = _pool(sims, *weights)
            scores[row_order[tile.rows, None], column_order[tile.columns]] = part
        ctx.tiles = tiles
        ctx.save_for_backward(words, a, frames, b, row_order, column_order, *saved)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Optional[Tensor], ...]:
        words, a, frames, b, row_order, column_order, *saved = ctx.saved_tensors
        grads = [None if x is None else torch.zeros_like(x) for x in (words, a, frames, b)]
        for i, tile in enumerate(ctx.tiles):
            g = grad[row_order[tile.rows, None], column_order[tile.columns]][:, None]
            sims_grad = words.new_zeros(_shape(tile))
            for dim, w, w_grad, index, maxima in zip(
                (2, 1),
                _tile_weights(a, b, tile),
                _tile_weights(grads[1], grads[3], tile),
                saved[4 * i : 4 * i + 2],
                saved[4 * i + 2 : 4 * i + 4],
            ):
                if w is not None:
                    where = index.long().unsqueeze(dim)
                    sims_grad.scatter_add_(dim, where, (g * w).unsqueeze(dim))
                if maxima is not None:
                    w_grad += (g * maxima).sum_to_size(w.shape)
            _add_token_grads(grads[0], grads[2], sims_grad, words, frames, tile)
        return (*grads, None, None, None)


def _pool_and_keep(
    sims: Tensor, weights: tuple[Optional[Tensor], ...], keep_maxima: tuple[bool, bool]
) -> tuple[Tensor, list[Optional[Tensor]]]:
    """Return :func:`_pool` and the tensors that the backward pass needs.

    They are the places of the maxima, int16, over frames and over words, and the maxima themselves
    if their weights need a gradient: four tensors or None.
    """
    scores, places, values = 0, [], []
    for dim, w, keep in zip((2, 1), weights, keep_maxima):
        maxima, index = (None, None) if w is None else sims.max(dim)
        if w is not None:
            scores = scores + (maxima * w).sum(1)
        places.append(None if w is None else index.to(torch.int16))
        values.append(maxima if keep else None)
    return scores, places + values


def _add_token_grads(
    words_grad: Tensor,
    frames_grad: Tensor,
    sims_grad: Tensor,
    words: Tensor,
    frames: Tensor,
    tile: _Tile,
) -> None:
    left, right = _operands(words, frames, tile)
    t, length, m, v = sims_grad.shape
    sims_grad = sims_grad.view(len(left), len(right))
    by_word = product(sims_grad, right).view(t, length, -1)
    by_frame = product(sims_grad.t(), left).view(m, v, -1)
    words_grad[tile.rows, :length] += by_word
    frames_grad[tile.columns, :m] += by_frame.transpose(0, 1)


def _operands(words: Tensor, frames: Tensor, tile: _Tile) -> tuple[Tensor, Tensor]:
    """Return the two matrices of a tile's product: words [t L, D] and frames [F v, D]."""
    left = words[tile.rows, : tile.words].flatten(0, 1)
    right = frames[tile.columns, : tile.frames].transpose(0, 1).flatten(0, 1)
    return left, right


def _shape(tile: _Tile) -> tuple[int, int, int, int]:
    """Return t, L, F, v."""
    rows, columns = tile.rows.stop - tile.rows.start, tile.columns.stop - tile.columns.start
    return rows, tile.words, tile.frames, columns


def _tile_weights(
    a: Optional[Tensor], b: Optional[Tensor], tile: _Tile
) -> tuple[Optional[Tensor], Optional[Tensor]]:
    """Return views that broadcast over the maxima of a tile: [t, L, 1] and [1, F, v]."""
    return (
        None if a is None else a[tile.rows, : tile.words, None],
        None if b is None else b[tile.columns, : tile.frames].t()[None],
    )
