"""Clips of equal number in every video, and proposals: all runs of neighbouring clips."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too

__all__ = ['clip_pooling', 'proposal_pooling', 'proposal_windows']


def proposal_windows(clips: int) -> Tensor:
    """Where the proposals of K clips begin and end (MS-SL: K = 32 gives 528).

    Args:
        clips: K.

    Returns:
        int64 [K (K + 1) / 2, 2], first clip and the one behind the last; the shortest first, then
        by their begin.

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
    """The matrix that averages clips to proposals, float [K (K + 1) / 2, K].

    Pooling is linear: inner products with proposals are such averages of those with clips.

    Args:
        clips: K; the proposals are those of :func:`proposal_windows` (MS-SL).

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
    """The matrices that average the n valid frames of each video to K clips.

    Clip i averages the frames round(i n / K) up to round((i + 1) n / K), or takes the first of
    these where there is none between, as MS-SL does.  (Its code never reads the last of more than
    K frames; here every frame is in one clip.)

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
