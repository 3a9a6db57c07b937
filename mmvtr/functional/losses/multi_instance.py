"""Multi-instance contrastive loss: several samples of each text and of each video."""

from __future__ import annotations

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.precision import at_least_float32

__all__ = ['multi_instance', 'over_samples', 'sample_scores']


@arrays_too
def multi_instance(
    texts: Tensor,
    videos: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    normalise: bool = True,
    weights: Optional[Tensor] = None,
    form: str = 'pooled',
    direction: str = 'both',
) -> Tensor:
    """Return the contrastive loss whose rows and columns are samples (UATVR Eq. 11).

    For each sample of a text, all samples of its matched videos are positives and all other samples
    are negatives; the loss is the mean over samples.  ``form='pooled'`` sums over the positives
    inside the logarithm as Eq. 11 does, ``'outer_sum'`` outside as the official code does.

    Args:
        texts: float [T, S, D], samples of the texts.
        videos: float [V, S', D], samples of the videos.
        positives: bool [T, V].
        temperature: divides the inner products; Eq. 11 has none (= 1).
        normalise: compare cosines.  Samples of a Gaussian around a unit vector are not unit
            vectors, and Eq. 11 with inner products rewards long samples.
        weights: float [T, V] or None, weights of the negatives.
        form, direction: see :func:`mmvtr.functional.losses.contrastive.contrastive`.

    Returns:
        0-dim tensor.

    Raises:
        ValueError: from :func:`~mmvtr.functional.losses.contrastive.contrastive`.

    Example:
        One sample per item, each along its own axis: log(1 + 1 / e^2). ::

            >>> samples = torch.eye(2)[:, None]
            >>> multi_instance(samples, samples, torch.eye(2).bool(), temperature=0.5)
            tensor(0.1269)
    """
    repeats = texts.shape[1], videos.shape[1]
    return contrastive(
        sample_scores(texts, videos, normalise=normalise),
        over_samples(positives, *repeats),
        temperature=temperature,
        weights=None if weights is None else over_samples(weights, *repeats),
        form=form,
        direction=direction,
    )


@arrays_too
def sample_scores(texts: Tensor, videos: Tensor, *, normalise: bool) -> Tensor:
    """Return inner products (cosines) of all samples: float [T, S, D], [V, S', D] -> [T S, V S'].

    Example:
        Two samples of a text, one of a video. ::

            >>> sample_scores(2 * torch.eye(2)[None], torch.tensor([[[3., 4.]]]), normalise=True)
            tensor([[0.6000],
                    [0.8000]])
    """
    t, v = (at_least_float32(x).flatten(0, 1) for x in (texts, videos))
    if normalise:
        t, v = F.normalize(t, dim=-1), F.normalize(v, dim=-1)
    with torch.autocast(t.device.type, enabled=False):
        return t @ v.t()


@arrays_too
def over_samples(x: Tensor, text_samples: int, video_samples: int) -> Tensor:
    """Repeat the entries of [T, V] (any dtype) for all pairs of samples: [T S, V S'].

    Example:
        ::

            >>> over_samples(torch.tensor([[1, 2]]), 2, 1)
            tensor([[1, 2],
                    [1, 2]])
    """
    return x.repeat_interleave(text_samples, 0).repeat_interleave(video_samples, 1)
