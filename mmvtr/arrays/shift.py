"""Whether served queries are like the bank's, on which P(right) was calibrated.

Raw scores alone are read: biases push down what the bank's own texts find.  A text of the bank
searches the gallery with its own item added, as a served query does whose item is there; if queries
are like the bank's, both are drawn alike, however large the gallery.  No label of a served query is
read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mmvtr.arrays.inputs import Bank, firsts, own_products
from mmvtr.functional.similarities.distinct import distinct_rows, places_in_groups

#: Raw scores of a query that are read.
DEPTH = 10
#: Fewest served queries, and most queries of either kind, that are compared.
FEWEST_QUERIES, MOST = 100, 500
#: Largest share of false alarms among comparisons of queries that are like the bank's.
ERROR = 0.01
#: What is compared of each query.
FIGURES = ('the best raw score', 'its lead over the second', 'the mean of places 2 to 10')
#: Difference below which a score of an own item is that of a copy of it in the gallery.
EQUAL = 1e-5


class Shift(NamedTuple):
    """How far served queries are from the bank's.

    Attributes:
        distances: of each of :data:`FIGURES`, the largest difference between the distribution
            functions of both kinds of queries (two-sample Kolmogorov-Smirnov statistic), in [0, 1].
        chance: what one of them reaches by chance in at most :data:`ERROR` of the comparisons.
        queries: number of different served queries that were compared.
        bank: number of bank texts that they were compared with.
    """

    distances: tuple[float, ...]
    chance: float
    queries: int
    bank: int

    @property
    def noticed(self) -> bool:
        """Whether the served queries are not like the bank's."""
        return max(self.distances) > self.chance

    def __str__(self) -> str:
        distance = max(self.distances)
        text = (
            f'{FIGURES[self.distances.index(distance)]} of {self.queries} queries is distributed '
            f'{distance:.2f} away from that of {self.bank} bank texts, by chance at most '
            f'{self.chance:.2f} in {1 - ERROR:.0%} of the cases'
        )
        if self.noticed:
            return f"these queries are not like the bank's, P may be too high: {text}"
        return f"nothing says that these queries are not like the bank's: {text}"


class Asked(NamedTuple):
    """Texts of a bank that stand for it, at most one of an item.

    Attributes:
        rows: int64 [m], their rows in the bank's texts.
        own: float32 [m, n], their raw scores with their own items, in random order; the first one
            again = no more.
        items: number of different items of the bank.
    """

    rows: Tensor
    own: Tensor
    items: int

    @classmethod
    def of(cls, bank: Bank, generator: torch.Generator) -> Asked:
        """Draw from a bank with pairs."""
        pairs = bank.pairs[torch.randperm(len(bank.pairs), generator=generator)]
        leads = pairs[firsts(pairs[:, 1])]
        drawn = leads[firsts(leads[:, 0])][:MOST, 0]
        mine = pairs[torch.isin(pairs[:, 0], drawn)]
        mine = mine[mine[:, 0].argsort(stable=True)]
        rows, counts = mine[:, 0].unique_consecutive(return_counts=True)
        text = torch.arange(len(rows)).repeat_interleave(counts)
        slot = places_in_groups(text)
        texts, items = bank.texts[mine[:, 0]], bank.items[mine[:, 1]]
        scores = own_products(texts, items, bank.geometry).float().cpu()
        own_scores = scores[slot == 0, None].repeat(1, int(counts.max()))
        own_scores[text, slot] = scores
        return cls(rows, own_scores, len(bank.items))

    def figures(self, top: Tensor, items: int) -> Tensor:
        """Return the :data:`FIGURES` of these texts, float64 [m, 3].

        One own item is added to the gallery, and of the others as many as are expected in a gallery
        of its size; not if it is there already.

        Args:
            top: float [m, DEPTH], their best raw scores with the gallery.
            items: number of items of the gallery.
        """
        top = top.float().cpu()
        drawn = torch.rand(self.own.shape, generator=torch.Generator().manual_seed(0))
        there = drawn < items / self.items
        there &= self.own != self.own[:, :1]
        there[:, 0] = True
        close = EQUAL * self.own.abs().clamp_min(EQUAL)
        there &= ((self.own[:, :, None] - top[:, None]).abs() > close[:, :, None]).all(2)
        own_scores = self.own.masked_fill(~there, -torch.inf)
        return figures(torch.cat([top, own_scores], 1).topk(DEPTH, dim=1).values)


def figures(top: Tensor) -> Tensor:
    """Return the :data:`FIGURES` of queries, float64 [Q, 3], from their best raw scores, float
    [Q, DEPTH], best first."""
    top = top.double().cpu()
    return torch.stack([top[:, 0], top[:, 0] - top[:, 1], top[:, 1:].mean(1)], dim=1)


def shift_of(queries: Tensor, served: Tensor, bank: Tensor) -> Shift | None:
    """Compare served queries with texts of the bank.

    Each figure is tested at a third of :data:`ERROR`, by the first term of Kolmogorov's limit,
    2 exp(-2 t^2 q m / (q + m)), which bounds it.  Equal queries count once.

    Args:
        queries: float [Q, ...], the vectors.
        served: float64 [Q, 3], their figures.
        bank: float64 [m, 3], figures of texts of the bank.

    Returns:
        None if there are fewer than :data:`FEWEST_QUERIES` different queries.
    """
    rows = distinct_rows(queries.cpu())
    if len(rows) < FEWEST_QUERIES:
        return None
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    served = served[rows[order[:MOST]]]
    distances = tuple(_distance(*pair) for pair in zip(served.t(), bank.t()))
    share = len(served) * len(bank) / (len(served) + len(bank))
    chance = math.sqrt(math.log(2 * len(FIGURES) / ERROR) / 2 / share)
    return Shift(distances, chance, len(served), len(bank))


def _distance(x: Tensor, y: Tensor) -> float:
    """Return the largest difference between two empirical distribution functions."""
    both = torch.cat([x, y]).contiguous()
    shares = [
        torch.searchsorted(z.sort().values, both, right=True).double() / len(z) for z in (x, y)
    ]
    return (shares[0] - shares[1]).abs().max().item()
