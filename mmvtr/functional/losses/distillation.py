"""Distillation losses from one score matrix to another (TeachText; Croitoru et al., ICCV 2021)."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.precision import at_least_float32

__all__ = ['mean_products', 'smooth_l1']


@arrays_too
def mean_products(texts: Sequence[Tensor], videos: Sequence[Tensor]) -> Tensor:
    """Return the mean over N teachers of the inner products of their vectors.

    Args:
        texts: N tensors, float [T, D_n]; half precision is computed in float32.
        videos: N tensors, float [V, D_n].

    Returns:
        float [T, V].

    Example:
        ::

            >>> one, two = torch.eye(2), torch.tensor([[3.0], [0.0]])
            >>> mean_products([one, two], [one, two])
            tensor([[5.0000, 0.0000],
                    [0.0000, 0.5000]])
    """
    with torch.autocast(texts[0].device.type, enabled=False):
        products = [at_least_float32(t) @ at_least_float32(v).t() for t, v in zip(texts, videos)]
    return sum(products) / len(products)


@arrays_too
def smooth_l1(scores: Tensor, teacher: Tensor, *, bend: float = 1.0) -> Tensor:
    """Return the smooth L1 distance of each score from the teacher's.

        d^2 / (2 bend)   where |d| < bend,     |d| - bend / 2   elsewhere;     d = score - teacher

    Args:
        scores: float [T, V]; half precision is computed in float32.
        teacher: float [T, V].
        bend: distance from which the loss is linear.

    Returns:
        float [T, V].

    Raises:
        ValueError: shapes that differ.

    Example:
        ::

            >>> smooth_l1(torch.tensor([[0.5, 3.0]]), torch.zeros(1, 2))
            tensor([[0.1250, 2.5000]])
    """
    if scores.shape != teacher.shape:
        raise ValueError(
            f"scores {list(scores.shape)} and the teacher's {list(teacher.shape)} differ in shape"
        )
    distance = (at_least_float32(scores) - teacher).abs()
    return torch.where(distance < bend, distance.square() / (2 * bend), distance - bend / 2)
