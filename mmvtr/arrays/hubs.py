"""Detection of gallery items that look as if they were made to be found by every query."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.inputs import Vectors, check_width, read_ids, read_vectors, score_tiles
from mmvtr.arrays.tokens import pooled
from mmvtr.functional.metrics.hubness import hub_breadth
from mmvtr.functional.similarities.tiles import Tiles, score_gap

#: Most queries read, and the fewest queries or items from which anything is reported.
MOST, LEAST = 512, 50
#: Clusters of queries, and rounds of k-means.
CLUSTERS, ROUNDS = 8, 20
#: Temperature of the relative masses, as a share of the score gap.
SHARE = 0.2
#: Length of a list as a share of the gallery, and the longest list.
LENGTH, LONGEST = 0.02, 10
#: Breadth from which an item is a suspect (docs/arrays.md says how it was chosen).
BREADTH = 0.1
#: Scores that differ by less are equal: products of equal vectors differ in the last digit.
ALIKE = 1e-6


class Suspect(NamedTuple):
    """An item that queries of most clusters find.

    Attributes:
        id: its id.
        share: share of the queries that have it among their best, in [0, 1].
        breadth: median over the clusters of that share (:func:`.hub_breadth`).
    """

    id: Any
    share: float
    breadth: float


class HubReport(NamedTuple):
    """How often queries find each of the N items of a gallery.

    Attributes:
        share: float64 [N], share of the queries that have an item among their k best.
        mass: float64 [N], relative mass at temperature .2 of the score gap; 1 = a fair share.
        breadth: float64 [N], median of the share over the clusters.
        suspects: items with a breadth of .1 or more, the broadest first.
        k: length of the lists.
        queries: number of queries read.
    """

    share: Tensor
    mass: Tensor
    breadth: Tensor
    suspects: list[Suspect]
    k: int
    queries: int

    def __str__(self) -> str:
        lines = [f'{len(self.suspects)} of {len(self.share)} items look made to be found']
        for suspect in self.suspects:
            lines.append(
                f'{suspect.id}: in the first {self.k} for {suspect.share:.0%} of {self.queries} '
                f'queries, and for {suspect.breadth:.0%} in the median of {CLUSTERS} clusters'
            )
        return '\n'.join(lines)


@torch.no_grad()
def hub_report(
    texts: Union[np.ndarray, Tensor],
    videos: Union[np.ndarray, Tensor],
    ids: Any = None,
    *,
    seed: int = 0,
) -> HubReport:
    """Report which videos look as if they were made to be found by every query.

    Queries are clustered into 8 groups.  A popular video is found by queries of few clusters; one
    that was made to be found (its vector optimised towards the mean of the queries, say) by those
    of most.  A video made for a single topic cannot be told from a popular one, nor one made to be
    near every query from one that is so by nature.  Measured in docs/arrays.md.

    Args:
        texts: queries seen before, numpy or torch, [Q, D]; at most 512 random ones are read.
        videos: the gallery, [N, D], may be memory-mapped.
        ids: ids of the videos; default row numbers.
        seed: random seed.

    Raises:
        TypeError, ValueError: arrays as in :func:`mmvtr.retrieve`; fewer than 50 queries or videos.

    Example:
        ::

            >>> generator = torch.Generator().manual_seed(0)
            >>> videos = torch.randn(200, 32, generator=generator)
            >>> texts = videos + torch.randn(200, 32, generator=generator) + 1
            >>> videos[7] = texts.mean(0)
            >>> mmvtr.hub_report(texts, videos).suspects[0].id
            7
    """
    queries, gallery = read_vectors(texts, 'texts'), read_vectors(videos, 'videos')
    check_width(queries, gallery.width, 'texts')
    named = read_ids(ids, len(gallery))
    for rows, name in ((queries, 'texts'), (gallery, 'videos')):
        if len(rows) < LEAST:
            raise ValueError(f'{len(rows)} {name} are too few to tell hubs: at least {LEAST}')
    sampled = drawn(queries, seed)
    vectors = sampled.unit()
    k, tiles = list_length(len(gallery)), score_tiles(vectors, gallery)
    share, breadth = judged(_lists(tiles, k), vectors, len(gallery), seed)
    suspected = named_suspects(share, breadth, named)
    return HubReport(share, _mass(tiles), breadth, suspected, k, len(sampled))


@torch.no_grad()
def suspects(
    queries: Vectors, gallery: Vectors, named: Optional[np.ndarray], seed: int = 0
) -> list[Suspect]:
    """Return the suspects; none if there are too few queries or items to tell.

    Args:
        queries: queries seen before.
        gallery: N items.
        named: their ids; None = row numbers.
        seed: random seed.
    """
    if min(len(queries), len(gallery)) < LEAST:
        return []
    vectors = drawn(queries, seed).unit()
    lists = _lists(score_tiles(vectors, gallery), list_length(len(gallery)))
    return named_suspects(*judged(lists, pooled(vectors), len(gallery), seed), named)


def drawn(queries: Vectors, seed: int) -> Vectors:
    """Return all queries, or 512 random ones if there are more."""
    if len(queries) <= MOST:
        return queries
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(queries), generator=generator)[:MOST].sort().values
    return Vectors.of(queries.unit(rows))


def list_length(items: int) -> int:
    """Return the length of the lists of the hub report for a gallery of N items."""
    return min(LONGEST, max(1, int(LENGTH * items)))


def _lists(tiles: Tiles, k: int) -> Tensor:
    """Return the k best items of each query, int64 [Q, k]; N (no item) if it scores all alike."""
    scores, places = tiles.best(k)
    lowest = -tiles.best(1, lambda part, tile: -tile)[0]
    return places.masked_fill(scores[:, :1] - lowest <= ALIKE, tiles.shape[1])


def judged(lists: Tensor, queries: Tensor, items: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return the share of the queries that find each item, and its breadth, float64 [N] each.

    Breadth is the median share over clusters of queries (:func:`hub_breadth`).

    Args:
        lists: int64 [Q, k], the items in each query's list; N = no item.
        queries: float [Q, D] of unit length.
        items: N.
        seed: random seed of the clusters.
    """
    share = torch.bincount(lists.flatten(), minlength=items + 1).double() / len(lists)
    breadth = hub_breadth(lists, query_clusters(queries, seed), items=items + 1)
    return share[:items], breadth[:items]


def query_clusters(queries: Tensor, seed: int = 0, clusters: int = CLUSTERS) -> Tensor:
    """Return the cluster of each unit vector by spherical k-means; no cluster is empty.

    Args:
        queries: float [Q, D].
        seed: random seed of the first centres, which are queries.
        clusters: largest number of clusters.

    Returns:
        int64 [Q].

    Example:
        ::

            >>> query_clusters(torch.eye(2).repeat(3, 1), clusters=2).unique().tolist()
            [0, 1]
    """
    generator = torch.Generator().manual_seed(seed)
    centres = queries[torch.randperm(len(queries), generator=generator)[:clusters]]
    for _ in range(ROUNDS):
        nearest = (queries @ centres.t()).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, queries)
        centres = torch.where(sums.any(1, keepdim=True), sums, centres)
        centres = torch.nn.functional.normalize(centres, dim=1)
    return (queries @ centres.t()).argmax(1).unique(return_inverse=True)[1]


def named_suspects(share: Tensor, breadth: Tensor, named: Optional[Sequence[Any]]) -> list[Suspect]:
    """Return the items whose breadth reaches the bound, the broadest first.

    Args:
        share, breadth: float64 [N].
        named: N ids; None = row numbers.
    """
    there = (breadth >= BREADTH).nonzero()[:, 0]
    places = there[breadth[there].argsort(descending=True)].tolist()
    return [
        Suspect(i if named is None else named[i], share[i].item(), breadth[i].item())
        for i in places
    ]


def _mass(tiles: Tiles) -> Tensor:
    """Return each item's relative mass at :data:`SHARE`, float64 [N]; ones if all tie."""
    temperature = SHARE * score_gap(tiles)
    if not temperature > 0:
        return torch.ones(tiles.shape[1], dtype=torch.float64)
    log_sums = None
    for _, tile in tiles.parts():
        sums = (tile.double() / temperature).logsumexp(1)
        log_sums = sums if log_sums is None else torch.logaddexp(log_sums, sums)
    return (
        tiles.per_column(
            lambda tile: (tile.double() / temperature - log_sums[:, None]).exp().mean(0)
        )
        * tiles.shape[1]
    )
