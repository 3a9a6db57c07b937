"""How far the texts lie from the videos in their common space (NCL, Appendix D).

Contrastive learning leaves each modality in a cone of its own, and the means of the cones act as a
bias of each item.  All from the mean vectors: the pairwise cosines are never made.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.precision import at_least_float32

__all__ = ['ModalityGap', 'modality_gap']


class ModalityGap(NamedTuple):
    """Mean cosines (NCL Fig. 8) and the gap; all 0-dim float64.

    Attributes:
        within_text: of all pairs of two different texts, <= 1.
        within_video: of all pairs of two different videos.
        cross: of all T x V text-video pairs, the matches among them.
        distance: between the two modal means (Eq. 21-22), in [0, 2].
    """

    within_text: Tensor
    within_video: Tensor
    cross: Tensor
    distance: Tensor


@arrays_too
def modality_gap(texts: Tensor, videos: Tensor) -> ModalityGap:
    """Mean cosines within and between the modalities, in linear time.

    ``mean_{i != j} <x_i, x_j> = (|sum_i x_i|^2 - sum_i |x_i|^2) / (N (N - 1))`` and
    ``mean_{i, j} <t_i, v_j> = <mu_t, mu_v>``, the constant of NCL Eq. 23.

    Args:
        texts: float [T, D], normalised here.
        videos: float [V, D].

    Raises:
        ValueError: fewer than two items of a modality, different D, or an item whose norm is zero
            or not finite (names the row).

    Example:
        Two orthogonal texts, two equal videos. ::

            >>> gap = modality_gap(torch.eye(2), torch.tensor([[3.0, 0.0], [1.0, 0.0]]))
            >>> [round(float(x), 3) for x in gap]
            [0.0, 1.0, 0.5, 0.707]
    """
    if texts.dim() != 2 or videos.dim() != 2 or texts.shape[1] != videos.shape[1]:
        raise ValueError(
            f'texts {list(texts.shape)} and videos {list(videos.shape)} must be [T, D] and [V, D]'
        )
    text_mean, within_text = _mean(texts, 'texts')
    video_mean, within_video = _mean(videos, 'videos')
    distance = torch.linalg.vector_norm(text_mean - video_mean)
    return ModalityGap(within_text, within_video, text_mean @ video_mean, distance)


def _mean(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Mean of the normalised rows, float64 [D], and mean cosine of two different rows."""
    if len(x) < 2:
        raise ValueError(f'{name}: {len(x)} of them have no pairs, at least two are needed')
    x = at_least_float32(x)
    norms = torch.linalg.vector_norm(x, dim=1)
    wrong = (~((norms > 0) & norms.isfinite())).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(f'{name}[{wrong[0]}] has the norm {norms[wrong[0]].item()}: no direction')
    unit = F.normalize(x, dim=1, eps=0.0)
    total = unit.sum(0, dtype=torch.float64)
    selves = unit.square().sum(dtype=torch.float64)
    return total / len(x), (total @ total - selves) / (len(x) * (len(x) - 1))
