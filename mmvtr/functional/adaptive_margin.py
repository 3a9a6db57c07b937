"""Margins of a ranking loss from how unlike two items are (CMGSD; He et al., SIGIR 2021)."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.precision import at_least_float32


def dissimilarities(
    text_cosines: Tensor, video_cosines: Tensor, positives: Tensor
) -> tuple[Tensor, Tensor]:
    """How unlike the owners of each row and each column are.

    Args:
        text_cosines: float [T, T], of the texts with each other.
        video_cosines: float [V, V], of the videos with each other.
        positives: bool [T, V].

    Returns:
        omega float [T, V], 1 - cosine of a row's own video and the column's; tau float [T, V], 1 -
        cosine of the row's text and the column's own.  Of several own ones the mean cosine counts;
        NaN where there is none.

    Example:
        Two pairs whose texts are alike and whose videos are not. ::

            >>> alike, unlike = torch.ones(2, 2), torch.eye(2)
            >>> dissimilarities(alike, unlike, torch.eye(2).bool())
            (tensor([[0., 1.],
                    [1., 0.]]), tensor([[0., 0.],
                    [0., 0.]]))
    """
    text_cosines, video_cosines = at_least_float32(text_cosines), at_least_float32(video_cosines)
    own = positives.to(text_cosines.dtype)
    # A mean over the own ones is a product with rows (columns) of sum 1; 0 / 0 is NaN.
    # Near 1 half precision knows three digits of a cosine, and two of what is left of it.
    with torch.autocast(own.device.type, enabled=False):
        omega = 1 - (own @ video_cosines) / own.sum(1, keepdim=True)
        tau = 1 - (text_cosines @ own) / own.sum(0)
    return omega, tau


def adaptive_margin(x: Tensor, pairs: Tensor, *, alpha: float, beta: float) -> Tensor:
    """``[alpha + beta (x - mean x) / std x]_+`` (CMGSD).

    Args:
        x: float [T, V], dissimilarities; NaN (not known) gives alpha.
        pairs: bool [T, V], the entries over which mean and (population) standard deviation are
            taken, as far as they are known.
        alpha: margin of an entry of mean dissimilarity.
        beta: how far one standard deviation moves it.

    Returns:
        float [T, V] >= 0.

    Example:
        ::

            >>> x = torch.tensor([[0.0, 0.4], [0.8, 0.0]])
            >>> adaptive_margin(x, ~torch.eye(2).bool(), alpha=0.2, beta=0.1)
            tensor([[0.0000, 0.1000],
                    [0.3000, 0.0000]])
    """
    known = x[pairs & ~x.isnan()]
    if not len(known):
        return torch.full_like(x, alpha)
    std = known.std(correction=0).clamp_min(torch.finfo(x.dtype).eps)
    return (alpha + beta * (x - known.mean()) / std).clamp_min(0).nan_to_num(nan=alpha)
