"""Which transform a gallery gets, by its bank alone.

No query of a test and no label of it is looked at.  The rule was set on one half of ten kinds of
real scores and tried on the other (docs/arrays.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.arrays.biases import biases_of
from mmvtr.arrays.inputs import Bank, Vectors
from mmvtr.functional.hubness import k_occurrence, skewness
from mmvtr.functional.ranks import ranks
from mmvtr.functional.tiles import as_tiles

#: What is tried: Sinkhorn at these shares of the reach.
SHARES = (0.067, 0.11, 0.2, 0.3)
#: A smaller bank decides nothing.
LEAST = 50
#: Pairs and items that are looked at: of more, so many at random.
MOST = 2000
#: How often the pairs are halved, and how often the halves' queries are drawn anew.
HALVINGS, DRAWS = 4, 1000
#: The lower bound of the gain that must lie above 0.
BOUND = 0.025
#: Of a bank without pairs: hubness from which on items are held back, of so many places, and how.
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
            the other half are their bank.  What gains most in mean reciprocal rank is taken if a
            bootstrap's bound says that it gains.  Without pairs hubness decides: the skewness of
            how often bank texts find each item.
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
    return _by_pairs(bank, seed)


def _by_pairs(bank: Bank, seed: int) -> Choice:
    random = torch.Generator().manual_seed(seed)
    pairs = torch.randperm(len(bank.queries), generator=random)[:MOST].sort().values
    videos, group = bank.own.unit(pairs).cpu().unique(dim=0, return_inverse=True)
    if len(videos) < LEAST:
        few = f'raw: {len(videos)} different bank videos are too few to decide (at least {LEAST})'
        return Choice(None, {}, few)
    scores = bank.queries.unit(pairs).cpu() @ videos.t()
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
        f'{len(pairs)} held-out bank pairs: sinkhorn at {SHARES[best]:g} of the reach changes their '
        f'mean reciprocal rank by {100 * mean[best]:+.1f} points (lower bound {100 * bound:+.1f})'
    )
    if bound <= 0:
        return Choice(None, {}, f'raw: {said}, no clear gain')
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
    random = torch.Generator().manual_seed(seed)
    queries, items = (
        torch.randperm(len(x), generator=random)[:MOST] for x in (bank.queries, gallery)
    )
    few = min(PLACES, len(items))
    if len(items) < LEAST:
        return Choice(None, {}, f'raw: {len(items)} videos are too few to tell hubs')
    scores = bank.queries.unit(queries) @ gallery.unit(items).to(bank.queries.lengths.device).t()
    skew = skewness(k_occurrence(scores, k=few)).item()
    said = f'the bank has no pairs, and the hubness of its texts is {skew:.2f}'
    if skew < SKEWED:
        return Choice(None, {}, f'raw: {said} (below {SKEWED:g})')
    why = f'sinkhorn: {said} (at least {SKEWED:g}); not tried on pairs'
    return Choice('sinkhorn', dict(reach=SHARE), why)
