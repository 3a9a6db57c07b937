"""Gallery vectors moved away from what is near to everything, against hubs.

No transform of scores: it takes vectors whose inner products are the scores.  What it gives is a
gallery like any other.
"""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.precision import at_least_float32
from mmvtr.functional.similarities.tiles import ENTRIES

__all__ = ['inverse_convolution', 'invgc']


@arrays_too
def inverse_convolution(
    gallery: Tensor, bank: Tensor, *, strength: float, share: Optional[float] = None
) -> Tensor:
    """One step of inverse graph convolution (InvGC; Jian and Wang 2023), against one bank.

    With similarities ``c_ij = x_i . b_j``, whose mean over all i and j is m::

        x_i - strength / M * sum_j (c_ij - m) b_j            share=None, AvgPool
        x_i - strength / k * sum_(j of the k highest) c_ij b_j    LocalAdj, k = floor(share * M)

    The mean is subtracted as the published code does, in the first form alone.  Similarities are
    made for a few items at a time, 16 MiB of float32.

    Args:
        gallery: float [N, D], x.
        bank: float [M, D], b, of either modality.
        strength: the paper's r; 0 = the gallery as it is.
        share: of the bank, in (0, 1], at least one vector of it; None = all of the bank.

    Returns:
        float [N, D], float32 or better, of any length.

    Raises:
        ValueError: no matrices of one width, or empty; a strength that is not finite; a share
            outside (0, 1], or of less than one vector.

    Example:
        Both items lose what they share with the one vector that is near to them. ::

            >>> gallery = torch.tensor([[1.0, 0.2], [0.0, 1.0]])
            >>> inverse_convolution(gallery, gallery[:1], strength=0.5, share=1.0)
            tensor([[ 0.4800,  0.0960],
                    [-0.1000,  0.9800]])
    """
    gallery, bank = _checked(gallery, bank)
    if not math.isfinite(strength):
        raise ValueError(f'strength must be finite, not {strength}')
    k = None if share is None else _neighbours(share, len(bank))
    mean = gallery.mean(0) @ bank.mean(0)  # of all similarities
    rows = max(1, ENTRIES // len(bank))
    shared = torch.cat([_shared(part, bank, mean, k) for part in gallery.split(rows)])
    return gallery - strength * shared


@arrays_too
def invgc(
    gallery: Tensor,
    *,
    items: Tensor,
    queries: Tensor,
    item_strength: float,
    query_strength: float,
    share: Optional[float] = None,
) -> Tensor:
    """InvGC (Jian and Wang 2023): a gallery moved by a bank of items and one of queries.

    The unit vectors of :func:`inverse_convolution` against each bank, halved and summed, and made
    unit again.  Queries stay as they are.

    Args:
        gallery: float [N, D].
        items: float [M, D], seen before, of the gallery's modality.
        queries: float [K, D], seen before, of the other modality.
        item_strength, query_strength: the paper's r_g and r_q.
        share: of each bank, as :func:`inverse_convolution` (LocalAdj); None = AvgPool.

    Returns:
        float [N, D], unit vectors, float32 or better.

    Raises:
        ValueError: as :func:`inverse_convolution`.

    Example:
        ::

            >>> gallery, seen = torch.eye(2), torch.tensor([[0.8, 0.6]])
            >>> invgc(gallery, items=seen, queries=seen, item_strength=1.0, query_strength=0.0)
            tensor([[ 0.9995, -0.0326],
                    [ 0.0377,  0.9993]])
    """
    moved = (
        inverse_convolution(gallery, bank, strength=strength, share=share)
        for bank, strength in ((items, item_strength), (queries, query_strength))
    )
    halves = [torch.nn.functional.normalize(x, dim=1) / 2 for x in moved]
    return torch.nn.functional.normalize(sum(halves), dim=1)


def _shared(gallery: Tensor, bank: Tensor, mean: Tensor, k: Optional[int]) -> Tensor:
    """Of some items, the mean of the bank (k of it) weighted by similarity, [n, D]."""
    similar = gallery @ bank.t()
    if k is None:
        return (similar - mean) @ bank / len(bank)
    best = similar.topk(k, dim=1)
    return torch.zeros_like(similar).scatter(1, best.indices, best.values) @ bank / k


def _neighbours(share: float, size: int) -> int:
    if not 0 < share <= 1:
        raise ValueError(f'share must lie in (0, 1], not {share}')
    k = int(share * size)
    if k < 1:
        raise ValueError(f'a share of {share} of {size} vectors is none of them')
    return k


def _checked(gallery: Tensor, bank: Tensor) -> tuple[Tensor, Tensor]:
    fits = gallery.dim() == bank.dim() == 2 and gallery.shape[1] == bank.shape[1]
    if not fits or not gallery.numel() or not bank.numel():
        raise ValueError(
            f'gallery {list(gallery.shape)} and bank {list(bank.shape)} must be [N, D] and [M, D], '
            'none of them 0'
        )
    gallery = at_least_float32(gallery)
    return gallery, bank.to(gallery)
