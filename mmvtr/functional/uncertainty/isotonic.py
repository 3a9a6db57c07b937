"""Isotonic regression: the closest non-decreasing function."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.values import arrays_too

__all__ = ['between_knots', 'isotonic']


@arrays_too
def isotonic(x: Tensor, y: Tensor, weight: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:
    """Return knots of the least-squares non-decreasing function of x (pool adjacent violators).

    Neighbouring blocks with decreasing means are pooled, all runs of them in one round, while
    rounds shorten the list by a quarter; then one by one, in linear time.  The order does not
    change the result.

    Args:
        x: float [M], finite.
        y: float [M].
        weight: float [M], at least 0; default ones.

    Returns:
        Knots: x float64 [K], increasing, and the function there, float64 [K]; the first and the
            last x of each block.  The function is linear between knots.

    Raises:
        ValueError: no entry of positive weight, shapes that differ.

    Example:
        ::

            >>> x = torch.tensor([1., 2., 3., 4.])
            >>> isotonic(x, torch.tensor([0., 1., 0., 1.]))[1]
            tensor([0.0000, 0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """
    weight = torch.ones_like(x) if weight is None else weight
    if not x.shape == y.shape == weight.shape or x.dim() != 1:
        raise ValueError(
            f'x {list(x.shape)}, y {list(y.shape)}, weight {list(weight.shape)}: [M] each'
        )
    weighted = weight > 0
    if not weighted.any():
        raise ValueError('isotonic regression needs at least one entry')
    x, y, weight = (one[weighted].double() for one in (x, y, weight))
    places, same = x.unique(return_inverse=True)  # sorted
    mass = bin_sums(weight, same, len(places))
    total = bin_sums(weight * y, same, len(places))
    block = torch.arange(len(places), device=x.device)
    shorter = True
    while shorter:
        mean, before = total / mass, len(total)
        pool = torch.cat([block.new_zeros(1), (mean[1:] > mean[:-1]).long()]).cumsum(0)
        shorter = 4 * (int(pool[-1]) + 1) <= 3 * before
        if not shorter:
            pool = _pooled_one_by_one(mass, total)
        count = int(pool[-1]) + 1
        mass, total = bin_sums(mass, pool, count), bin_sums(total, pool, count)
        block = pool[block]
    value = (total / mass)[block]
    first = torch.ones_like(block, dtype=torch.bool)
    first[1:] = block[1:] != block[:-1]
    last = torch.ones_like(first)
    last[:-1] = first[1:]
    knots = first | last
    return places[knots], value[knots]


@arrays_too
def between_knots(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Return values interpolated linearly between knots, and constant beyond them.

    Args:
        x: float [...].
        knots: float [K], increasing.
        values: float [K].

    Returns:
        float64 [...].

    Example:
        ::

            >>> knots, values = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
            >>> between_knots(torch.tensor([0.0, 1.5, 9.0]), knots, values)
            tensor([3., 4., 5.], dtype=torch.float64)
    """
    x = x.double()
    knots, values = (one.double().to(x.device) for one in (knots, values))
    if len(knots) == 1:
        return values.expand(x.shape).clone()
    right = torch.searchsorted(knots, x.contiguous()).clamp(1, len(knots) - 1)
    left = right - 1
    share = (x - knots[left]) / (knots[right] - knots[left]).clamp_min(1e-300)
    return torch.lerp(values[left], values[right], share.clamp(0, 1))


def _pooled_one_by_one(mass: Tensor, total: Tensor) -> Tensor:
    """Return the pool of each of the blocks [K], int64 [K], by a stack."""
    pools: list[tuple[float, float, int]] = []  # mass, total, blocks
    for weight, summed in zip(mass.tolist(), total.tolist()):
        size = 1
        while pools and summed * pools[-1][0] <= pools[-1][1] * weight:
            before = pools.pop()
            weight, summed, size = weight + before[0], summed + before[1], size + before[2]
        pools.append((weight, summed, size))
    sizes = torch.tensor([size for _, _, size in pools], device=mass.device)
    return torch.arange(len(pools), device=mass.device).repeat_interleave(sizes)


def bin_sums(x: Tensor, place: Tensor, count: int) -> Tensor:
    """Return the sums [count] of the values x [M] at each place, int64 [M].

    Example:
        ::

            >>> bin_sums(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 1, 0]), 2)
            tensor([5., 2.])
    """
    return torch.zeros(count, dtype=x.dtype, device=x.device).index_add_(0, place, x)
