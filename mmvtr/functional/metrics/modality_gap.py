"""How far the texts lie from the videos in their common space (NCL, Appendix D).

Contrastive learning leaves each modality in its own cone, and the means of the cones act as a bias
of each item.  Computed from mean vectors: the pairwise cosines are never made.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.metrics.hubness import retrieval_mass
from mmvtr.functional.values import arrays_too, at_least_float32, check_shapes

__all__ = ['ModalBiases', 'ModalityGap', 'bias_gradient', 'modal_biases', 'modality_gap']


class ModalityGap(NamedTuple):
    """Mean cosines (NCL Fig. 8) and the gap; all 0-dim float64.

    Attributes:
        within_text: mean over all pairs of two different texts, <= 1.
        within_video: mean over all pairs of two different videos.
        cross: mean over all T x V text-video pairs, matches included.
        distance: between the two modal means (Eq. 21-22), in [0, 2].
    """

    within_text: Tensor
    within_video: Tensor
    cross: Tensor
    distance: Tensor


@arrays_too
def modality_gap(texts: Tensor, videos: Tensor) -> ModalityGap:
    """Return mean cosines within and between the modalities, in linear time.

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
    _check(texts, videos)
    text_mean, within_text = _mean(texts, 'texts')
    video_mean, within_video = _mean(videos, 'videos')
    distance = torch.linalg.vector_norm(text_mean - video_mean)
    return ModalityGap(within_text, within_video, text_mean @ video_mean, distance)


def _check(texts: Tensor, videos: Tensor) -> None:
    if texts.dim() != 2 or videos.dim() != 2 or texts.shape[1] != videos.shape[1]:
        raise ValueError(
            f'texts {list(texts.shape)} and videos {list(videos.shape)} must be [T, D] and [V, D]'
        )


def _mean(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Return the mean of the normalised rows, float64 [D], and the mean cosine of two rows."""
    if len(x) < 2:
        raise ValueError(f'{len(x)} {name} have no pairs, at least two are needed')
    x = at_least_float32(x)
    norms = torch.linalg.vector_norm(x, dim=1)
    wrong = (~((norms > 0) & norms.isfinite())).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(
            f'{name}[{wrong[0]}] has the norm {norms[wrong[0]].item()}, so it has no direction'
        )
    unit = F.normalize(x, dim=1, eps=0.0)
    total = unit.sum(0, dtype=torch.float64)
    selves = unit.square().sum(dtype=torch.float64)
    return total / len(x), (total @ total - selves) / (len(x) * (len(x) - 1))


class ModalBiases(NamedTuple):
    """Bias of an item's scores that comes from the mean of the other modality (NCL Eq. 23).

    Attributes:
        text: float64 [T], ``<mu_v, t'_i>``.
        video: float64 [V], ``<mu_t, v'_j>``, the b_j of Eq. 24-28.
    """

    text: Tensor
    video: Tensor


@arrays_too
def modal_biases(texts: Tensor, videos: Tensor) -> ModalBiases:
    """Return implicit biases of texts and videos (NCL Eq. 24-27).

    With ``t_i = mu_t + t'_i`` and ``v_j = mu_v + v'_j``, a score is ``<t_i, v_j> = <mu_t, mu_v> +
    <mu_v, t'_i> + <mu_t, v'_j> + <t'_i, v'_j>``.  A softmax over videos depends only on the last
    two: ``exp(<mu_t, v'_j> / temperature)`` is the weight of video j in it (Eq. 27).

    Args:
        texts: float [T, D], as scored (not normalised here).
        videos: float [V, D].

    Raises:
        ValueError: not [T, D] and [V, D], or no items.

    Example:
        Video 0 lies where the texts do. ::

            >>> biases = modal_biases(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.eye(2))
            >>> biases.video
            tensor([ 0.5000, -0.5000], dtype=torch.float64)
    """
    _check(texts, videos)
    if not len(texts) or not len(videos):
        raise ValueError(
            f'{len(texts)} texts and {len(videos)} videos: at least one of each expected'
        )
    texts, videos = texts.double(), videos.double()
    text_mean, video_mean = texts.mean(0), videos.mean(0)
    return ModalBiases(
        text=(texts - text_mean) @ video_mean, video=(videos - video_mean) @ text_mean
    )


@arrays_too
def bias_gradient(
    scores: Tensor, positives: Tensor, *, temperature: float | Tensor, dim: int = 1
) -> Tensor:
    """Return the contrastive loss's gradient with respect to each item's bias (NCL Eq. 28).

    ``dL/db_j = -(own_j - sum_i P(v_j | t_i)) / (2 Q temperature)`` for Q queries, of which
    ``own_j`` belong to item j (1 in the paper; a query of several items is shared equally among
    them), for the mean loss of both directions (Eq. 4).  The other direction's softmax runs over
    queries, where ``b_j`` cancels.  Eq. 28 as printed lacks the temperature.

    Args:
        scores: float [T, V], unscaled.
        positives: bool [T, V]; queries without a positive are ignored.
        temperature: positive.
        dim: dimension of the items: 1 = videos, 0 = texts.

    Returns:
        float64 [N]; below 0 for an item that is found less than its share: its bias will rise.

    Raises:
        ValueError: shapes that differ, no query with a positive; or see
            :func:`~mmvtr.functional.metrics.hubness.retrieval_mass`.

    Example:
        Both texts prefer video 0: its bias will fall. ::

            >>> scores = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
            >>> bias_gradient(scores, torch.eye(2).bool(), temperature=1.0)
            tensor([ 0.1904, -0.1904], dtype=torch.float64)
    """
    check_shapes(scores=scores, positives=positives)
    if dim == 0:
        scores, positives = scores.t(), positives.t()
    asks = positives.any(1)
    if not asks.any():
        raise ValueError('no query has a positive: there is no loss')
    matches = positives[asks].double()
    target_mass = (matches / matches.sum(1, keepdim=True)).sum(0)
    mass = retrieval_mass(scores[asks], temperature=temperature)
    return (mass - target_mass) / (2 * len(matches) * float(temperature))
