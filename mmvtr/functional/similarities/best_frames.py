"""The best frame of each video for a text, and its cosine (ARL Eq. 2-3).

Partially relevant retrieval scores a video by its best frame.  All pairs of a batch are done in
tiles; chosen pairs (a training set's annotated ones) from stored embeddings, video by video.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.precision import at_least_float32

__all__ = ['BestFrames', 'best_frames', 'paired_best_frames']


class BestFrames(NamedTuple):
    """What each pair of a text and a video has in common.

    Attributes:
        scores: float [T, V] or [P], s of Eq. 3.
        index: int64, same shape, the frame k-hat; of equal frames the first.
    """

    scores: Tensor
    index: Tensor


@arrays_too
def best_frames(texts: Tensor, frames: Tensor, mask: Tensor, *, entries: int = 2**22) -> BestFrames:
    """Cosine with, and place of, the best valid frame, of all pairs; differentiable.

    Args:
        texts: float [T, D], of any length; half precision is computed in float32.
        frames: float [V, F, D].
        mask: bool [V, F].
        entries: cosines that exist at a time, at least those of one video.

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
    texts = F.normalize(at_least_float32(texts), dim=-1)
    width = max(1, entries // max(len(texts) * frames.shape[1], 1))
    parts = [_best(texts, *part) for part in zip(frames.split(width), mask.split(width))]
    return BestFrames(*(torch.cat(x, dim=1) for x in zip(*parts)))


def _best(texts: Tensor, frames: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`best_frames`, of one tile.  Frames come first: a maximum is fastest there."""
    frames = F.normalize(at_least_float32(frames), dim=-1).transpose(0, 1)
    with torch.autocast(texts.device.type, enabled=False):
        cosines = frames @ texts.t()
    scores, index = cosines.masked_fill(~mask.t()[..., None], -math.inf).max(0)
    return scores.t(), index.t()


@torch.no_grad()
@partial(arrays_too, mapped=True)
def paired_best_frames(
    texts: Any, frames: Any, mask: Any, rows: Tensor, columns: Tensor, *, entries: int = 2**22
) -> BestFrames:
    """As :func:`best_frames`, of P chosen pairs, in time and memory linear in P.

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
    found = []
    step = max(1, entries // max(math.prod(frames.shape[1:]) + most * frames.shape[2], 1))
    for v, count, start in zip(videos.split(step), counts.split(step), first.split(step)):
        place = torch.arange(most, device=count.device)
        real = place < count[:, None]
        pair = order[torch.where(real, start[:, None] + place, start[:, None])]  # [v, most]
        words = F.normalize(_take(texts, rows[pair]), dim=-1)
        images = F.normalize(_take(frames, v), dim=-1)
        with torch.autocast(images.device.type, enabled=False):
            cosines = words @ images.mT
        best = cosines.masked_fill(~_take(mask, v)[:, None], -math.inf).max(-1)
        found.append([x[real.to(x.device)] for x in best])
    if not found:
        none = torch.zeros(0, device=texts.device if isinstance(texts, Tensor) else None)
        return BestFrames(none, none.long())
    back = order.argsort().to(found[0][0].device)
    return BestFrames(*(torch.cat(x)[back] for x in zip(*found)))


def _check(texts: Any, frames: Any, mask: Tensor) -> None:
    shapes = [tuple(x.shape) for x in (texts, frames, mask)]
    if len(shapes[0]) != 2 or shapes[1] != (*shapes[2], shapes[0][1]):
        raise ValueError(
            f'texts {shapes[0]}, frames {shapes[1]} and mask {shapes[2]} must be [T, D], '
            '[V, F, D] and [V, F]'
        )
    empty = (~mask.any(1)).nonzero().flatten().tolist()
    if empty:
        raise ValueError(f'video {empty[0]} has no valid frame: its mask is all False')


def _take(x: Any, index: Tensor) -> Tensor:
    """Some rows, copied: a memory map may be read-only."""
    if isinstance(x, Tensor):
        return at_least_float32(x[index.to(x.device)])
    return at_least_float32(torch.tensor(x[index.cpu().numpy()]))
