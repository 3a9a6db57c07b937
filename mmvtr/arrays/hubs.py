"""Items that look as if they were made to be found by everybody."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.inputs import Vectors, check_width, read_ids, read_vectors, score_tiles
from mmvtr.arrays.tokens import pooled
from mmvtr.functional.metrics.hubness import hub_breadth
from mmvtr.functional.similarities.tiles import Tiles, reach

#: Queries that are looked at; fewer than the least tell nothing.
MOST, LEAST = 512, 50
#: Clusters of queries, and rounds of k-means.
CLUSTERS, ROUNDS = 8, 20
#: Temperature of the relative masses, as a share of the reach.
SHARE = 0.2
#: A list is as long as this share of the gallery, 1 to 10 items.
LENGTH, LONGEST = 0.02, 10
#: Breadth from which on an item is a suspect (docs/arrays.md says how it was chosen).
BREADTH = 0.1
#: Scores are alike that differ by less: products of equal vectors differ in the last place.
ALIKE = 1e-6


class Suspect(NamedTuple):
    """An item that queries of most clusters find.

    Attributes:
        id: of it.
        share: of the queries, those that have it among their best, in [0, 1].
        breadth: the same share in the cluster in the middle (:func:`.hub_breadth`).
    """

    id: Any
    share: float
    breadth: float


class HubReport(NamedTuple):
    """How queries find the N items of a gallery.

    Attributes:
        share: float64 [N], of the queries, those that have an item among their k best.
        mass: float64 [N], relative mass at .2 of the reach; 1 = a fair share.
        breadth: float64 [N], the share in the cluster in the middle.
        suspects: items of a breadth of .1 or more, the broadest first.
        k: length of the lists.
        queries: how many were looked at.
    """

    share: Tensor
    mass: Tensor
    breadth: Tensor
    suspects: list[Suspect]
    k: int
    queries: int

    def __str__(self) -> str:
        said = [f'{len(self.suspects)} of {len(self.share)} items look made to be found']
        for one in self.suspects:
            said.append(
                f'{one.id}: in the first {self.k} of {one.share:.0%} of {self.queries} queries, of '
                f'{one.breadth:.0%} in the middle one of {CLUSTERS} clusters'
            )
        return '\n'.join(said)


@torch.no_grad()
def hub_report(
    texts: Union[np.ndarray, Tensor],
    videos: Union[np.ndarray, Tensor],
    ids: Any = None,
    *,
    seed: int = 0,
) -> HubReport:
    """Which videos look as if they were made to be found by everybody.

    Queries are put into 8 clusters.  A popular video is found by queries of few of them; one that
    was made to be found (its vector optimised towards the mean of the queries, say) by those of
    most.  One that was made for a single topic is not told from a popular one, nor one that is near
    to everything by nature from one that was made so.  Measured in docs/arrays.md.

    Args:
        texts: queries seen before, numpy or torch, [Q, D]; of more than 512 as many at random.
        videos: the gallery, [N, D], may be memory-mapped.
        ids: of the videos; default row numbers.
        seed: of what is drawn.

    Raises:
        TypeError, ValueError: arrays as of :func:`mmvtr.retrieve`; fewer than 50 queries or videos.

    Example:
        ::

            >>> random = torch.Generator().manual_seed(0)
            >>> videos = torch.randn(200, 32, generator=random)
            >>> texts = videos + torch.randn(200, 32, generator=random) + 1
            >>> videos[7] = texts.mean(0)
            >>> mmvtr.hub_report(texts, videos).suspects[0].id
            7
    """
    queries, gallery = read_vectors(texts, 'texts'), read_vectors(videos, 'videos')
    check_width(queries, gallery.width, 'texts')
    named = read_ids(ids, len(gallery))
    for one, name in ((queries, 'texts'), (gallery, 'videos')):
        if len(one) < LEAST:
            raise ValueError(f'{len(one)} {name} are too few to tell hubs: at least {LEAST}')
    asked = drawn(queries, seed)
    held = asked.unit()
    k, tiles = list_length(len(gallery)), score_tiles(held, gallery)
    share, breadth = judged(_lists(tiles, k), held, len(gallery), seed)
    found = named_suspects(share, breadth, named)
    return HubReport(share, _mass(tiles), breadth, found, k, len(asked))


@torch.no_grad()
def suspects(
    queries: Vectors, gallery: Vectors, named: Optional[np.ndarray], seed: int = 0
) -> list[Suspect]:
    """The suspects alone; none where there are too few queries or items to tell.

    Args:
        queries: seen before.
        gallery: N items.
        named: their ids; None: row numbers.
        seed: of what is drawn.
    """
    if min(len(queries), len(gallery)) < LEAST:
        return []
    held = drawn(queries, seed).unit()
    lists = _lists(score_tiles(held, gallery), list_length(len(gallery)))
    return named_suspects(*judged(lists, pooled(held), len(gallery), seed), named)


def drawn(queries: Vectors, seed: int) -> Vectors:
    """All queries, or of more than 512 as many at random."""
    if len(queries) <= MOST:
        return queries
    random = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(queries), generator=random)[:MOST].sort().values
    return Vectors.of(queries.unit(rows))


def list_length(items: int) -> int:
    """Length of the lists that tell hubs of a gallery of N items."""
    return min(LONGEST, max(1, int(LENGTH * items)))


def _lists(tiles: Tiles, k: int) -> Tensor:
    """The k best items of each query, int64 [Q, k]; N, no item, of one that scores all alike."""
    scores, places = tiles.best(k)
    lowest = -tiles.best(1, lambda part, tile: -tile)[0]
    return places.masked_fill(scores[:, :1] - lowest <= ALIKE, tiles.shape[1])


def judged(lists: Tensor, queries: Tensor, items: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Share of the queries that find each item, and its breadth, float64 [N] each.

    Args:
        lists: int64 [Q, k], the items in each query's list; N stands for none.
        queries: float [Q, D] of unit length.
        items: N.
        seed: of the clusters.
    """
    share = torch.bincount(lists.flatten(), minlength=items + 1).double() / len(lists)
    breadth = hub_breadth(lists, query_clusters(queries, seed), items=items + 1)
    return share[:items], breadth[:items]


def query_clusters(queries: Tensor, seed: int = 0, clusters: int = CLUSTERS) -> Tensor:
    """Clusters of unit vectors by spherical k-means, none of them empty.

    Args:
        queries: float [Q, D].
        seed: of the first centres, which are queries.
        clusters: at most so many.

    Returns:
        int64 [Q].

    Example:
        ::

            >>> query_clusters(torch.eye(2).repeat(3, 1), clusters=2).unique().tolist()
            [0, 1]
    """
    random = torch.Generator().manual_seed(seed)
    centres = queries[torch.randperm(len(queries), generator=random)[:clusters]]
    for _ in range(ROUNDS):
        nearest = (queries @ centres.t()).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, queries)
        centres = torch.where(sums.any(1, keepdim=True), sums, centres)
        centres = torch.nn.functional.normalize(centres, dim=1)
    return (queries @ centres.t()).argmax(1).unique(return_inverse=True)[1]


def named_suspects(share: Tensor, breadth: Tensor, named: Optional[Sequence[Any]]) -> list[Suspect]:
    """Items whose breadth reaches the bound, the broadest first.

    Args:
        share, breadth: float64 [N].
        named: N ids; None: row numbers.
    """
    there = (breadth >= BREADTH).nonzero()[:, 0]
    places = there[breadth[there].argsort(descending=True)].tolist()
    return [
        Suspect(i if named is None else named[i], share[i].item(), breadth[i].item())
        for i in places
    ]


def _mass(tiles: Tiles) -> Tensor:
    """Relative mass of each item at a share of the reach, float64 [N]; ones of constant scores."""
    temperature = SHARE * reach(tiles)
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
