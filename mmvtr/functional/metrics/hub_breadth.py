"""Whether an item is found by queries of one kind, or by queries that have nothing in common.

A popular item is found by many queries about one thing.  An item that was made to be found, say by
moving its vector to the mean of all queries, is found by queries about everything.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too

__all__ = ['hub_breadth']


@arrays_too
def hub_breadth(found: Tensor, clusters: Tensor, *, items: int) -> Tensor:
    """Share of a cluster's queries that find an item, in the cluster in the middle.

    The largest b such that in more than half of the clusters at least that share of the queries
    has the item in its list.

    Args:
        found: int [Q, k], the items in each query's list, no item twice.
        clusters: int [Q], of which cluster each query is, 0 to C - 1; none is empty.
        items: N.

    Returns:
        float64 [N] in [0, 1].

    Raises:
        ValueError: no queries, shapes that do not fit, an item or cluster out of range, an empty
            cluster.

    Example:
        All queries of cluster 0 find item 0, one of two in each cluster item 1. ::

            >>> found = torch.tensor([[0, 1], [0, 2], [1, 3], [2, 3]])
            >>> hub_breadth(found, torch.tensor([0, 0, 1, 1]), items=4)
            tensor([0.0000, 0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    if found.dim() != 2 or not found.numel() or clusters.shape != found.shape[:1]:
        raise ValueError(
            f'found {list(found.shape)} must be [queries, k], not empty, and clusters '
            f'{list(clusters.shape)} [queries]'
        )
    if found.min() < 0 or found.max() >= items or clusters.min() < 0:
        raise ValueError(f'items must be 0 to {items - 1}, clusters 0 or more')
    sizes = torch.bincount(clusters)
    if not sizes.all():
        raise ValueError(f'cluster {int((sizes == 0).nonzero()[0])} has no queries')
    place = found * len(sizes) + clusters[:, None]
    counts = torch.bincount(place.flatten(), minlength=items * len(sizes))
    shares = counts.reshape(items, len(sizes)).double() / sizes
    return shares.median(1).values  # of an even number the lower one of the two
