"""The best frame of each video for a text, and its cosine (ARL Eq. 2-3).

Partially relevant retrieval scores a video by its best frame.  All pairs of a batch are computed in
tiles; chosen pairs (such as a training set's annotated ones) from stored embeddings, video by
video.  Proposals are all runs of neighbouring clips of a video.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.similarities.token_interaction import token_scores
from mmvtr.functional.values import (
    arrays_too,
    at_least_float32,
    check_range,
    check_valid,
    product,
    recomputed,
)

__all__ = [
    'BestFrames',
    'best_frames',
    'clip_pooling',
    'highest',
    'paired_best_frames',
    'proposal_pooling',
    'proposal_windows',
    'sentence_frame_scores',
]


class BestFrames(NamedTuple):
    """The best frame of each text-video pair.

    Attributes:
        scores: float [T, V] or [P], s of Eq. 3.
        index: int64, same shape, the frame k-hat; ties go to the first frame.
    """

    scores: Tensor
    index: Tensor


@arrays_too
def best_frames(
    texts: Tensor,
    frames: Tensor,
    mask: Tensor,
    *,
    normalize: bool = True,
    entries: int = 2**22,
) -> BestFrames:
    """Return the best valid frame and its cosine, for all pairs; differentiable.

    Args:
        texts: float [T, D], of any length; half precision is computed in float32.
        frames: float [V, F, D].
        mask: bool [V, F].
        normalize: False compares inner products of the vectors as they are.
        entries: largest number of cosines in memory, at least those of one video.

    Returns:
        [T, V] each.

    Raises:
        ValueError: shapes that do not fit, or a video without a valid frame.

    Example:
        Frame 1 is the nearer one, at a cosine of 3/5. ::

            >>> frames = torch.tensor([[[0.0, 1.0], [3.0, 4.0]]])
            >>> best_frames(torch.tensor([[2.0, 0.0]]), frames, torch.ones(1, 2).bool())
            BestFrames(scores=tensor([[0.6000]]), index=tensor([[1]]))
    """
    _check(texts, frames, mask)
    texts = F.normalize(texts, dim=-1) if normalize else texts
    width = max(1, entries // max(len(texts) * frames.shape[1], 1))
    parts = [_best(texts, *part, normalize) for part in zip(frames.split(width), mask.split(width))]
    return BestFrames(*(torch.cat(x, dim=1) for x in zip(*parts)))


def _best(texts: Tensor, frames: Tensor, mask: Tensor, normalize: bool) -> tuple[Tensor, Tensor]:
    """Return :func:`best_frames` of one tile.  Frames come first: a maximum is fastest there."""
    frames = at_least_float32(frames)
    frames = F.normalize(frames, dim=-1) if normalize else frames
    products = product(frames.transpose(0, 1), texts.t())
    if not mask.all():
        products = products.masked_fill(~mask.t()[..., None], -math.inf)
    scores, index = products.max(0)
    return scores.t(), index.t()


@torch.no_grad()
@partial(arrays_too, mapped=True)
def paired_best_frames(
    texts: Any, frames: Any, mask: Any, rows: Tensor, columns: Tensor, *, entries: int = 2**22
) -> BestFrames:
    """Return :func:`best_frames` of P chosen pairs, in time and memory linear in P.

    Args:
        texts: Tensor or numpy array [N_q, D], may be half precision and memory-mapped.
        frames: Tensor or numpy array [N_v, F, D], likewise; each video is read once.
        mask: bool Tensor or numpy array [N_v, F].
        rows: int64 [P], the text of each pair.
        columns: int64 [P], its video.
        entries: numbers read at a time, at least those of one video and its texts.

    Returns:
        [P] each.

    Raises:
        ValueError: shapes that do not fit, or a video without a valid frame.

    Example:
        Text 0 with video 1, then with video 0. ::

            >>> frames = torch.tensor([[[0.0, 1.0], [3.0, 4.0]], [[2.0, 0.0], [0.0, 2.0]]])
            >>> pairs = dict(rows=torch.tensor([0, 0]), columns=torch.tensor([1, 0]))
            >>> paired_best_frames(torch.eye(2), frames, torch.ones(2, 2).bool(), **pairs)
            BestFrames(scores=tensor([1.0000, 0.6000]), index=tensor([0, 1]))
    """
    mask = mask if isinstance(mask, Tensor) else torch.tensor(mask)
    _check(texts, frames, mask)
    rows, columns = torch.as_tensor(rows), torch.as_tensor(columns)
    order = columns.argsort(stable=True)
    videos, counts = columns[order].unique_consecutive(return_counts=True)
    first = counts.cumsum(0) - counts
    most = int(counts.max()) if len(counts) else 0
    parts = []
    step = max(1, entries // max(math.prod(frames.shape[1:]) + most * frames.shape[2], 1))
    for v, count, start in zip(videos.split(step), counts.split(step), first.split(step)):
        place = torch.arange(most, device=count.device)
        real = place < count[:, None]
        pair = order[torch.where(real, start[:, None] + place, start[:, None])]  # [v, most]
        words = F.normalize(_take(texts, rows[pair]), dim=-1)
        images = F.normalize(_take(frames, v), dim=-1)
        cosines = product(words, images.mT)
        best = cosines.masked_fill(~_take(mask, v)[:, None], -math.inf).max(-1)
        parts.append([x[real.to(x.device)] for x in best])
    if not parts:
        none = torch.zeros(0, device=texts.device if isinstance(texts, Tensor) else None)
        return BestFrames(none, none.long())
    back = order.argsort().to(parts[0][0].device)
    return BestFrames(*(torch.cat(x)[back] for x in zip(*parts)))


def _check(texts: Any, frames: Any, mask: Tensor) -> None:
    shapes = [tuple(x.shape) for x in (texts, frames, mask)]
    if len(shapes[0]) != 2 or shapes[1] != (*shapes[2], shapes[0][1]):
        raise ValueError(
            f'texts {shapes[0]}, frames {shapes[1]} and mask {shapes[2]} must be [T, D], '
            '[V, F, D] and [V, F]'
        )
    check_valid(mask, 'video', 'frame')


def _take(x: Any, index: Tensor) -> Tensor:
    """Return a copy of some rows: a memory map may be read-only."""
    if isinstance(x, Tensor):
        return at_least_float32(x[index.to(x.device)])
    return at_least_float32(torch.tensor(x[index.cpu().numpy()]))


@arrays_too
def sentence_frame_scores(
    sentences: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    *,
    temperature: float = 0.01,
    entries: int = 2**22,
) -> Tensor:
    """Return ``sum_m p_m s_m``, ``p = softmax(s / temperature)``, of sentences and frames.

    X-CLIP's attention over similarities, over valid frames and without its mixing matrices.

    Args:
        sentences: float [T, D], unit vectors for cosines; half precision is computed in float32.
        frames: float [V, F, D].
        frame_mask: bool [V, F].
        temperature: of the softmax; 0 takes the best frame.
        entries: largest number of similarities in memory (at least those of one pair).

    Returns:
        float [T, V].

    Raises:
        ValueError: a negative temperature, shapes that do not fit, a video without a valid frame.

    Example:
        Softmax of similarities 1 and 0, and the better one. ::

            >>> inputs = (torch.tensor([[1.0, 0.0]]), torch.eye(2)[None], torch.ones(1, 2).bool())
            >>> [sentence_frame_scores(*inputs, temperature=t) for t in (1.0, 0.0)]
            [tensor([[0.7311]]), tensor([[1.]])]
    """
    if not temperature >= 0:
        raise ValueError(
            f'temperature must be positive, or 0 for the best frame, not {temperature}'
        )
    if temperature == 0:
        word_mask = torch.ones(len(sentences), 1, dtype=torch.bool, device=sentences.device)
        return token_scores(
            sentences[:, None], word_mask, frames, frame_mask, side='words', entries=entries
        )
    _check(sentences, frames, frame_mask)
    frames = frames.masked_fill(~frame_mask[..., None], 0.0)
    width = max(1, min(math.isqrt(entries) // max(frames.shape[1], 1), len(frames)))
    height = max(1, entries // max(width * frames.shape[1], 1))
    # split, not slices: the backward pass of a slice fills a zero tensor of full size.
    columns = list(zip(frames.split(width), frame_mask.split(width)))

    rows = [
        torch.cat([recomputed(_softmax_pooled, part, *tile, temperature) for tile in columns], 1)
        for part in sentences.split(height)
    ]
    return torch.cat(rows)


def _softmax_pooled(sentences: Tensor, frames: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Return softmax-pooled scores: float [t, D], [v, F, D], bool [v, F] -> float [t, v]."""
    sims = product(sentences, frames.flatten(0, 1).t()).unflatten(1, mask.shape)
    p = (sims / temperature).masked_fill(~mask, -math.inf).softmax(-1)
    return (p * sims).sum(-1)


def proposal_windows(clips: int) -> Tensor:
    """Return where the proposals of K clips begin and end (MS-SL: K = 32 gives 528).

    Args:
        clips: K.

    Returns:
        int64 [K (K + 1) / 2, 2], the first clip and the one after the last, by length, then by
        begin.

    Example:
        ::

            >>> proposal_windows(2).tolist()
            [[0, 1], [1, 2], [0, 2]]
    """
    start = torch.arange(clips)
    windows = [
        torch.stack([start[: clips - length + 1], start[: clips - length + 1] + length], 1)
        for length in range(1, clips + 1)
    ]
    return torch.cat(windows)


def proposal_pooling(clips: int) -> Tensor:
    """Return the matrix whose rows average clips into proposals, float [K (K + 1) / 2, K].

    Pooling is linear: the inner product with a proposal is the same average of the inner products
    with its clips.

    Args:
        clips: their number K; the proposals are those of :func:`proposal_windows` (MS-SL).

    Example:
        ::

            >>> proposal_pooling(2)
            tensor([[1.0000, 0.0000],
                    [0.0000, 1.0000],
                    [0.5000, 0.5000]])
    """
    windows, clip = proposal_windows(clips), torch.arange(clips)
    inside = (clip >= windows[:, :1]) & (clip < windows[:, 1:])
    return inside / inside.sum(1, keepdim=True)


@arrays_too
def clip_pooling(frame_mask: Tensor, clips: int, *, dtype: Optional[torch.dtype] = None) -> Tensor:
    """Return the matrices that average the n valid frames of each video to K clips.

    Clip i averages the frames round(i n / K) up to round((i + 1) n / K), or takes the first of them
    if that range is empty, as MS-SL does.  (Its code never reads the last of more than K frames;
    here every frame is in one clip.)

    Args:
        frame_mask: bool [V, F]; each row needs a True.
        clips: K.
        dtype: of the result, default torch's.

    Returns:
        float [V, K, F], rows sum to 1, 0 at padding.

    Example:
        Three valid frames to two clips. ::

            >>> clip_pooling(torch.tensor([[1, 1, 1, 0]]).bool(), 2)
            tensor([[[0.5000, 0.5000, 0.0000, 0.0000],
                     [0.0000, 0.0000, 1.0000, 0.0000]]])
    """
    count = frame_mask.sum(1)[:, None]
    place = (frame_mask.cumsum(1) - 1)[:, None]
    edges = torch.arange(clips + 1, device=frame_mask.device)
    edges = (edges.double() / clips * count).round().long()
    start = torch.minimum(edges[:, :-1], count - 1)[..., None]
    stop = torch.maximum(edges[:, 1:, None], start + 1)
    inside = ((place >= start) & (place < stop) & frame_mask[:, None]).to(
        dtype or torch.get_default_dtype()
    )
    return inside / inside.sum(-1, keepdim=True)


@arrays_too
def highest(scores: Tensor, candidates: Tensor, k: int) -> Tensor:
    """Return the ``k`` best-scored candidates of each row; ties go to the leftmost.

    Args:
        scores: float [T, V].
        candidates: bool [T, V].
        k: largest number of entries a row.

    Returns:
        bool [T, V], at most ``k`` True in a row, all of them candidates.

    Raises:
        ValueError: k < 1.

    Example:
        ::

            >>> highest(torch.tensor([[0.9, 0.5, 0.5]]), torch.tensor([[0, 1, 1]]).bool(), 1)
            tensor([[False,  True, False]])
    """
    check_range('[1, inf]', k=k)
    if k >= scores.shape[1]:
        return candidates
    ordered = scores.detach().masked_fill(~candidates, -math.inf)
    if k == 1:  # argmax takes the leftmost, too, and costs a tenth of an order
        best = ordered.argmax(1, keepdim=True)
    else:
        best = ordered.argsort(dim=1, descending=True, stable=True)[:, :k]
    return torch.zeros_like(candidates).scatter_(1, best, True) & candidates
