"""PCME's match probability of two distributions, and its soft contrastive loss, in log space."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.losses.pairwise import REDUCTIONS, check_reduction
from mmvtr.functional.precision import at_least_float32
from mmvtr.functional.uncertainty.gaussian import squared_distances

__all__ = ['log_mean_sigmoid', 'match_log_probability', 'soft_contrast']

#: Under the root of the distance, as PCME has it: keeps the gradient of equal vectors finite.
EPS = 1e-6


@arrays_too
def match_log_probability(
    texts: Tensor, videos: Tensor, *, slope: float | Tensor, bias: float | Tensor
) -> tuple[Tensor, Tensor]:
    """log p and log(1 - p) that a text and a video match, of all pairs (PCME Eq. 2-3).

    ``p_tv = mean over S x S' sample pairs of sigmoid(bias - slope |z_t - z_v|)``.  The official
    code writes ``e^x / (e^x + e^-x)`` for the sigmoid, which is that of 2x: its a and b are half
    of ``slope`` and ``bias``.

    Args:
        texts: float [T, S, D], samples of the texts.
        videos: float [V, S', D], samples of the videos.
        slope, bias: numbers or 0-dim tensors; ``slope > 0``.

    Returns:
        Two float [T, V]; they stay finite where p is 0 or 1 to rounding.

    Example:
        One sample each, 3 away from the other: p = sigmoid(3 - 3). ::

            >>> texts, videos = torch.tensor([[[0.0]]]), torch.tensor([[[3.0]]])
            >>> yes, no = match_log_probability(texts, videos, slope=1.0, bias=3.0)
            >>> round(yes.exp().item(), 4), round(no.exp().item(), 4)
            (0.5, 0.5)
    """
    t, v = (at_least_float32(x).flatten(0, 1) for x in (texts, videos))
    logits = bias - slope * (squared_distances(t, v) + EPS).sqrt()
    logits = logits.unflatten(1, videos.shape[:2]).unflatten(0, texts.shape[:2])  # [T, S, V, S']
    return tuple(log_mean_sigmoid(x, (1, 3)) for x in (logits, -logits))


@arrays_too
def soft_contrast(
    texts: Tensor,
    videos: Tensor,
    positives: Tensor,
    *,
    slope: float | Tensor,
    bias: float | Tensor,
    reduction: str = 'mean',
) -> Tensor:
    """PCME's soft contrastive loss: ``-log p`` of positives, ``-log(1 - p)`` of all other pairs.

    Args:
        texts, videos, slope, bias: see :func:`match_log_probability`.
        positives: bool [T, V].
        reduction: see :func:`.binary_cross_entropy`; ``'sum'`` is official (PCME adds both
            directions, which are equal, and UATVR's copy takes half of that).

    Returns:
        0-dim tensor; 0 for an empty matrix.

    Raises:
        ValueError: unknown reduction, or shapes that differ.

    Example:
        A match at a distance of 3 has p = 1/2, and a loss of log 2. ::

            >>> texts, videos = torch.tensor([[[0.0]]]), torch.tensor([[[3.0]]])
            >>> soft_contrast(texts, videos, torch.ones(1, 1).bool(), slope=1.0, bias=3.0)
            tensor(0.6931)
    """
    check_reduction(reduction)
    if positives.shape != (len(texts), len(videos)):
        raise ValueError(
            f'positives {tuple(positives.shape)} of {len(texts)} texts and {len(videos)} videos'
        )
    yes, no = match_log_probability(texts, videos, slope=slope, bias=bias)
    loss = -torch.where(positives, yes, no).sum()
    return loss / max(REDUCTIONS[reduction](positives), 1)


@arrays_too
def log_mean_sigmoid(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """``log mean sigmoid(x)`` over ``dims``, finite for any finite x: float [...] -> [...].

    ``sigmoid(x) = e^min(x, 0) / (1 + e^-|x|)``, of which the first factor alone can underflow: its
    greatest exponent is taken out of the sum.  Less than half the work of log sigmoids under a
    log-sum-exp.

    Example:
        Also where every sigmoid is 0 to rounding. ::

            >>> log_mean_sigmoid(torch.tensor([0.0, 0.0]), (0,)).exp()
            tensor(0.5000)
            >>> log_mean_sigmoid(torch.tensor([-200.0, -200.0]), (0,))
            tensor(-200.)
    """
    # At x = 0 the gradient of minimum is 1/2, and that of |x| is 0: together a sigmoid's, 1/4.
    # A sigmoid of |x| would have no gradient beyond 16 (s (1 - s) with s = 1 to rounding).
    low = torch.minimum(x, x.new_zeros(()))
    top = low.detach().amax(dims, keepdim=True)
    mean = ((low - top).exp() / (1 + (-x.abs()).exp())).mean(dims)
    return mean.log() + top.squeeze(dims)
