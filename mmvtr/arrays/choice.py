"""Which transform a gallery gets, by its bank alone.

No query of a test and no label of it is looked at.  The rule was set on eleven sets of real scores
and tried on nine others; that hubs count beside the bound was decided with those nine in view
(docs/arrays.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.arrays.biases import biases_of
from mmvtr.arrays.inputs import Bank, Vectors, products
from mmvtr.functional.metrics.hubness import k_occurrence, skewness
from mmvtr.functional.metrics.ranks import ranks
from mmvtr.functional.similarities.tiles import as_tiles

#: What is tried: Sinkhorn at these shares of the reach.
SHARES = (0.067, 0.11, 0.2, 0.3)
#: A smaller bank decides nothing.
LEAST = 50
#: Pairs and items that are looked at: of more, so many at random.
MOST = 2000
#: How often the pairs are halved, and how often the halves' queries are drawn anew.
HALVINGS, DRAWS = 4, 1000
#: The quantile of the gain that must lie above 0.
BOUND = 0.025
#: Hubness, of so many places, from which on any gain will do, and of a bank without pairs none need
#: be seen: its items are held back at this share.
SKEWED, PLACES, SHARE = 1.5, 10, 0.2


class Choice(NamedTuple):
    """What was chosen.

    Attributes:
        transform: its name; None = scores as they are.
        options: of it.
        why: a sentence.
    """

    transform: Optional[str]
    options: dict[str, Any]
    why: str


def choose(bank: Optional[Bank], gallery: Vectors, *, seed: int = 0) -> Choice:
    """A transform for a gallery, or none.

    Args:
        bank: with pairs these are halved: the texts of one half ask for its videos, the texts of
            the other half are their bank.  What gains most in mean reciprocal rank is taken if the
            lower bound of a bootstrap (97.5 %) says that it gains, or if it gains and the gallery
            has hubs.  Without pairs hubs decide alone: the skewness of how often bank texts find
            each item is 1.5 or more.
        gallery: N items.
        seed: of the halves.
    """
    if bank is None:
        return Choice(None, {}, 'raw: without a bank nothing says which items are hubs')
    if len(bank.queries) < LEAST:
        few = f'raw: {len(bank.queries)} bank texts are too few to decide (at least {LEAST})'
        return Choice(None, {}, few)
    if bank.own is None:
        return _by_hubness(bank, gallery, seed)
    return _by_pairs(bank, gallery, seed)


def _by_pairs(bank: Bank, gallery: Vectors, seed: int) -> Choice:
    random = torch.Generator().manual_seed(seed)
    pairs = torch.randperm(len(bank.queries), generator=random)[:MOST].sort().values
    videos, group = bank.own.unit(pairs).cpu().unique(dim=0, return_inverse=True)
    if len(videos) < LEAST:
        few = f'raw: {len(videos)} different bank videos are too few to decide (at least {LEAST})'
        return Choice(None, {}, few)
    scores = products(bank.queries.unit(pairs).cpu(), videos)
    gains = torch.zeros(len(SHARES), len(pairs), dtype=torch.float64)
    for _ in range(HALVINGS):
        first = torch.rand(len(videos), generator=random).argsort() < len(videos) // 2
        for half in (first, ~first):
            asked = half[group]
            gains[:, asked] += _gains(scores, group, asked, half) / HALVINGS
    mean = gains.mean(1)
    best = int(mean.argmax())
    bound = _lower_bound(gains[best], group, random)
    said = (
        f'{len(pairs)} held-out bank pairs: sinkhorn at {SHARES[best]:g} of the reach changes '
        f'their mean reciprocal rank by {100 * mean[best]:+.1f} points (bound {100 * bound:+.1f})'
    )
    skew = _hubness(bank, gallery, random)
    if bound <= 0 and not (mean[best] > 0 and skew >= SKEWED):
        return Choice(None, {}, f'raw: {said}, no clear gain')
    if bound <= 0:
        said += f', and the gallery has hubs (skewness {skew:.2f})'
    return Choice('sinkhorn', dict(reach=SHARES[best]), f'sinkhorn: {said}')


def _gains(scores: Tensor, group: Tensor, asked: Tensor, half: Tensor) -> Tensor:
    """What each of SHARES adds to 1 / rank of the queries of a half, float64 [S, q]."""
    mine, bank = scores[asked][:, half], as_tiles(scores[~asked][:, half])
    place = torch.cumsum(half, 0) - 1
    own = torch.zeros_like(mine, dtype=torch.bool)
    own[torch.arange(len(mine)), place[group[asked]]] = True
    before = 1 / ranks(mine, own)
    changed = (mine + biases_of('sinkhorn', bank, reach=share).items for share in SHARES)
    return torch.stack([1 / ranks(one, own) - before for one in changed])


def _lower_bound(gains: Tensor, group: Tensor, random: torch.Generator) -> float:
    """Of the mean gain, videos drawn with their texts: a video's texts are no separate evidence."""
    videos = int(group.max()) + 1
    sums = torch.zeros(videos, dtype=torch.float64).index_add_(0, group, gains)
    counts = torch.bincount(group, minlength=videos).double()
    drawn = torch.randint(videos, (DRAWS, videos), generator=random)
    return (sums[drawn].sum(1) / counts[drawn].sum(1)).quantile(BOUND).item()


def _by_hubness(bank: Bank, gallery: Vectors, seed: int) -> Choice:
    skew = _hubness(bank, gallery, torch.Generator().manual_seed(seed))
    said = f'the bank has no pairs, and how often its texts find a video has skewness {skew:.2f}'
    if skew < SKEWED:
        return Choice(None, {}, f'raw: {said} (hubs: {SKEWED:g} or more)')
    return Choice('sinkhorn', dict(reach=SHARE), f'sinkhorn: {said}; not tried on pairs')


def _hubness(bank: Bank, gallery: Vectors, random: torch.Generator) -> float:
    """Skewness of how many bank texts have each item among their 10 best; 0 of a few items."""
    if len(gallery) < LEAST:
        return 0.0
    queries, items = (
        torch.randperm(len(x), generator=random)[:MOST] for x in (bank.queries, gallery)
    )
    scores = products(bank.queries.unit(queries), gallery.unit(items))
    return skewness(k_occurrence(scores, k=PLACES)).item()
