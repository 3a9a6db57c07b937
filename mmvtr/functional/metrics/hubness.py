"""How unevenly a gallery is retrieved, and the errors that this causes.

Some items ("hubs") are near to many different queries and displace the right ones; others are
never found.  ``dim`` is the dimension of the gallery, as in :mod:`.ranks`: 1 = videos for text
queries, 0 = texts for video queries.  All functions read a few queries at a time.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

import torch
from torch import Tensor

from mmvtr.functional.metrics.ranks import tile_rows
from mmvtr.functional.similarities.tiles import refuse_non_finite
from mmvtr.functional.values import arrays_too, at_least_float32, check_range, check_shapes

__all__ = [
    'ErrorRates',
    'error_rates_by_mass',
    'generality',
    'hub_breadth',
    'k_occurrence',
    'normalisation_error',
    'relative_mass',
    'retrieval_mass',
    'skewness',
]


class ErrorRates(NamedTuple):
    """False retrievals of gallery items in B bins of mass; NaN if there is nothing to count.

    Attributes:
        mass: float64 [B], mean relative mass of the items.
        items: int64 [B], number of items.
        false_negatives: float64 [B] in [0, 1].
        false_positives: float64 [B] in [0, 1].
    """

    mass: Tensor
    items: Tensor
    false_negatives: Tensor
    false_positives: Tensor


@arrays_too
def retrieval_mass(scores: Tensor, *, temperature: float | Tensor, dim: int = 1) -> Tensor:
    """Return the sum over queries of the retrieval probability of each item (NCL Eq. 2-3, 5).

    A query's probabilities are ``softmax(scores / temperature)`` over the gallery.

    Args:
        scores: float [T, V], unscaled: the temperature divides them here.
        temperature: positive.
        dim: dimension of the gallery.

    Returns:
        float64 [N], summing to the number of queries.

    Raises:
        ValueError: a score is not finite (names row and column), no queries or no gallery, or a
            temperature that is not positive.

    Example:
        Both texts prefer video 0. ::

            >>> retrieval_mass(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), temperature=1.0)
            tensor([1.7616, 0.2384], dtype=torch.float64)
    """
    check_range('(0, inf]', temperature=temperature)
    mass = _zeros(scores, dim)
    for (part,) in _queries(dim, scores):
        mass += (part / temperature).softmax(1).sum(0, dtype=torch.float64)
    return mass


@arrays_too
def relative_mass(scores: Tensor, *, temperature: float | Tensor, dim: int = 1) -> Tensor:
    """Return :func:`retrieval_mass` over its mean: 1 = a fair share, less = under-represented.

    It equals the mass if there are as many queries as items (NCL Eq. 5).

    Args:
        scores: float [T, V], unscaled.
        temperature: positive.
        dim: dimension of the gallery.

    Returns:
        float64 [N], of mean 1.

    Raises:
        ValueError: see :func:`retrieval_mass`.

    Example:
        All of four texts prefer video 0. ::

            >>> relative_mass(torch.tensor([[2.0, 0.0]] * 4), temperature=1.0)
            tensor([1.7616, 0.2384], dtype=torch.float64)
    """
    mass = retrieval_mass(scores, temperature=temperature, dim=dim)
    return mass * len(mass) / scores.shape[1 - dim]


@arrays_too
def normalisation_error(scores: Tensor, *, temperature: float | Tensor, dim: int = 1) -> Tensor:
    """Return the mean distance of the relative mass from 1 (NCL Eq. 5, for any number of queries).

    Args:
        scores: float [T, V], unscaled.
        temperature: positive.
        dim: dimension of the gallery.

    Returns:
        0-dim float64; 0 = every item gets its share, below 2.

    Raises:
        ValueError: see :func:`retrieval_mass`.

    Example:
        ::

            >>> normalisation_error(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), temperature=1.0)
            tensor(0.7616, dtype=torch.float64)
    """
    return (1 - relative_mass(scores, temperature=temperature, dim=dim)).abs().mean()


@arrays_too
def generality(scores: Tensor, *, temperature: float | Tensor, dim: int = 1) -> Tensor:
    """Return how general each query is: the effective number of gallery items that it matches.

    The perplexity of a query's ``softmax(scores / temperature)`` over the gallery: 1 if one item
    has all the probability, N if all items have the same.

    Args:
        scores: float [T, V], unscaled: the temperature divides them here.
        temperature: positive.
        dim: dimension of the gallery; the queries are along the other one.

    Returns:
        float64 [Q] in [1, N], one a query.

    Raises:
        ValueError: see :func:`retrieval_mass`.

    Example:
        Text 1 fits both videos, text 0 one of them. ::

            >>> generality(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), temperature=0.1)
            tensor([1.0005, 2.0000], dtype=torch.float64)
    """
    check_range('(0, inf]', temperature=temperature)
    _zeros(scores, dim)  # raises ValueError without a gallery
    parts = []
    for (part,) in _queries(dim, scores):
        log = (part.double() / temperature).log_softmax(1)
        parts.append((-(log.exp() * log).sum(1)).exp())
    return torch.cat(parts)


@arrays_too
def k_occurrence(scores: Tensor, *, k: int, dim: int = 1) -> Tensor:
    """Return how many queries have each item among their ``k`` best (Radovanovic et al. 2010).

    Items tied for the last of the ``k`` places share them: each counts as often as it would on
    average if ties were broken at random.

    Args:
        scores: float [T, V].
        k: 1 to the size of the gallery.
        dim: dimension of the gallery.

    Returns:
        float64 [N], summing to k times the number of queries.

    Raises:
        ValueError: a score is not finite, no queries or no gallery, or ``k`` out of range.

    Example:
        Text 1 cannot decide between videos 1 and 2. ::

            >>> scores = torch.tensor([[.9, .1, .0], [.2, .8, .8]])
            >>> k_occurrence(scores, k=1)
            tensor([1.0000, 0.5000, 0.5000], dtype=torch.float64)
    """
    count = _zeros(scores, dim)
    if not 1 <= k <= len(count):
        raise ValueError(f'k must be 1 to {len(count)}, the gallery, not {k}')
    for (part,) in _queries(dim, scores):
        last = part.topk(k, dim=1).values[:, -1:]
        above, tied = part > last, part == last
        share = (k - above.sum(1)).double() / tied.sum(1)
        query, item = tied.nonzero(as_tuple=True)
        count += above.sum(0)
        count.index_add_(0, item, share[query])
    return count


@arrays_too
def skewness(x: Tensor) -> Tensor:
    """Return ``mean(((x - mean) / std)^3)``, the third moment, with the population's std.

    For :func:`k_occurrence` it is the usual measure of hubness: a few items that many queries find
    make a long right tail.

    Args:
        x: float [N].

    Returns:
        0-dim float64; 0 if all values are the same.

    Raises:
        ValueError: no values, or one that is not finite.

    Example:
        ::

            >>> skewness(torch.tensor([0.0, 0.0, 0.0, 4.0]))
            tensor(1.1547, dtype=torch.float64)
    """
    if not len(x) or not x.isfinite().all():
        raise ValueError('skewness expects one or more values, all finite')
    deviation = x.double() - x.double().mean()
    deviation = deviation / deviation.abs().amax()  # else cubes of tiny or huge x are 0 or inf
    standard = deviation.square().mean().sqrt()
    same = x.amax() - x.amin() <= 1e-12 * x.abs().amax()  # equal sums may differ by rounding
    return ((deviation / standard) ** 3).mean().where(~same, 0.0)


@arrays_too
def error_rates_by_mass(
    scores: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor,
    dim: int = 1,
    edges: Sequence[float] = (1.0,),
) -> ErrorRates:
    """Return false negatives and positives of gallery items by their relative mass (NCL Fig. 3).

    An item's *own queries* are those it matches.  Over all items of a bin together,

    - the false negative rate is the share of own queries that do not retrieve the item first: some
      item that is not a match scores higher.  A query's other matches never count against it.
    - the false positive rate is the share of queries retrieving the item first that are not its
      own.  (The paper says "wrongly retrieved by irrelevant queries" and gives no formula.)

    With one match a query both are decompositions of the same 1 - R@1, and the rates of all items
    together are equal.  Ties count in expectation.  Queries without a match add only to the mass,
    as R@1 ignores them too.

    Args:
        scores: float [T, V].
        positives: bool [T, V].
        temperature: of the mass.
        dim: dimension of the gallery.
        edges: E increasing borders of relative mass; bin i of E + 1 holds
            ``edges[i - 1] <= mass < edges[i]``.

    Raises:
        ValueError: see :func:`retrieval_mass`; shapes that differ, or edges that do not increase.

    Example:
        Video 0 is retrieved by both texts, video 1 by none. ::

            >>> scores = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
            >>> rates = error_rates_by_mass(scores, torch.eye(2).bool(), temperature=1.0)
            >>> rates.false_negatives.tolist(), rates.false_positives.tolist()
            ([1.0, 0.0], [nan, 0.5])
    """
    check_shapes(scores=scores, positives=positives)
    borders = torch.tensor(edges, dtype=torch.float64, device=scores.device)
    if not (borders.diff() > 0).all():
        raise ValueError(f'edges must increase: {list(edges)}')
    mass = relative_mass(scores, temperature=temperature, dim=dim)
    own, missed, first, wrong = (_zeros(scores, dim) for _ in range(4))
    for part, match in _queries(dim, scores, positives):
        _count_misses(part, match, own, missed)
        _count_firsts(part, match, first, wrong)
    place = torch.bucketize(mass, borders, right=True)
    items, mass, own, missed, first, wrong = (
        borders.new_zeros(len(borders) + 1).index_add(0, place, x)
        for x in (torch.ones_like(mass), mass, own, missed, first, wrong)
    )
    return ErrorRates(mass / items, items.long(), missed / own, wrong / first)


def _count_misses(part: Tensor, match: Tensor, own: Tensor, missed: Tensor) -> None:
    """Add to each item's own queries, and to those that a non-matching item wins."""
    query, item = match.nonzero(as_tuple=True)
    others = part.masked_fill(match, -torch.inf)
    best = others.amax(1, keepdim=True)
    tied = (others == best).sum(1).double()[query]
    score, best = part[query, item], best[query, 0]
    own.index_add_(0, item, torch.ones_like(tied))
    missed.index_add_(0, item, (score < best).double() + (score == best) * tied / (tied + 1))


def _count_firsts(part: Tensor, match: Tensor, first: Tensor, wrong: Tensor) -> None:
    """Add to the queries that retrieve each item first, and to those of them it does not match."""
    top = (part == part.amax(1, keepdim=True)) & match.any(1, keepdim=True)
    query, item = top.nonzero(as_tuple=True)
    share = 1 / top.sum(1).double()[query]
    first.index_add_(0, item, share)
    wrong.index_add_(0, item, share * ~match[query, item])


def _queries(dim: int, scores: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield a few queries at a time, as rows: scores in float32 or better, the other matrices."""
    refuse_non_finite(scores)
    matrices = [x if dim == 1 else x.t() for x in (scores, *others)]
    rows = tile_rows(matrices[0])
    for part, *others in zip(*(x.split(rows) for x in matrices)):
        yield at_least_float32(part), *others


def _zeros(scores: Tensor, dim: int) -> Tensor:
    """Return a float64 zero for each gallery item."""
    if scores.dim() != 2 or not scores.numel():
        raise ValueError(f'scores {list(scores.shape)} must be [texts, videos], none of them 0')
    return torch.zeros(scores.shape[dim], dtype=torch.float64, device=scores.device)


@arrays_too
def hub_breadth(found: Tensor, clusters: Tensor, *, items: int) -> Tensor:
    """Return the median over clusters of the share of a cluster's queries that find an item.

    The lower median: the largest b such that in more than half of the clusters at least that share
    of the queries has the item in its list.

    Args:
        found: int [Q, k], the items in each query's list, no item twice.
        clusters: int [Q], the cluster of each query, 0 to C - 1; none is empty.
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
    return shares.median(1).values  # the lower one for an even number
