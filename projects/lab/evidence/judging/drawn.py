"""Measures of a set of parts over draws of its queries and items.

Draw 0 is all of them, draws 1 and 2 are the even and the odd queries, the others are a bootstrap:
queries are drawn with replacement, and items; an item that is not drawn is not in the gallery, but
for the queries it was written for.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from judging.real_sets import Part

DRAWS = 300
#: Draws that are no bootstrap.
WHOLE, EVEN, ODD, FIXED = 0, 1, 2, 3
#: Of the best items of a query; that all of these are missing from a draw has odds of .37^30.
PLACES = 30


class Draws(NamedTuple):
    """Weights of queries float64 [Q, D], and which items are in the gallery, bool [N, D]."""

    weights: Tensor
    present: Tensor

    def fixed(self) -> 'Draws':
        """Those that are no bootstrap alone."""
        return Draws(self.weights[:, :FIXED], self.present[:, :FIXED])


def draws(parts: Sequence[Part], count: int = DRAWS, seed: int = 0) -> Draws:
    queries, items = (
        1 + max(int(getattr(p, x).max()) for p in parts) for x in ('queries', 'items')
    )
    random = np.random.default_rng(seed)
    weights = [np.ones(queries), np.arange(queries) % 2 == 0, np.arange(queries) % 2 == 1]
    weights += [random.multinomial(queries, np.full(queries, 1 / queries)) for _ in range(count)]
    present = [np.ones(items, dtype=bool)] * FIXED
    present += [random.multinomial(items, np.full(items, 1 / items)) > 0 for _ in range(count)]
    stacked = (torch.from_numpy(np.stack(x, 1)) for x in (weights, present))
    return Draws(next(stacked).double(), next(stacked))


def measured(scores: Sequence[Tensor], parts: Sequence[Part], drawn: Draws) -> dict[str, Tensor]:
    """Scores [Q, N] of each part -> by measure float64 [D], in percent.

    ``R1`` always; ``P1`` and ``AP`` of right items beside the own one where people judged, ``nDCG``
    and ``nDCG_others`` where they graded.
    """
    sums: dict[str, list[Tensor]] = {}
    for one, part in zip(scores, parts, strict=True):
        weights = drawn.weights[part.queries]
        for name, values in _of_part(one, part, drawn.present).items():
            known = ~values.isnan()
            both = (weights * values.nan_to_num(0.0)).sum(0), (weights * known).sum(0)
            before = sums.setdefault(name, [torch.zeros_like(x) for x in both])
            for total, more in zip(before, both):
                total += more
    return {name: 100 * top / count for name, (top, count) in sums.items()}


def _of_part(scores: Tensor, part: Part, present: Tensor) -> dict[str, Tensor]:
    """Of each query and draw, float64 [Q, D]; NaN where there is nothing to measure."""
    order = scores.topk(min(PLACES, scores.shape[1]), dim=1).indices
    own = order == part.own[:, None]
    there = present[part.items[order]] | own[..., None]
    first = there & (there.cumsum(1, dtype=torch.int16) == 1)
    found = dict(R1=(first & own[..., None]).any(1).double())
    if part.grades is None:
        return found
    if part.at_least is None:
        return {**found, **_gains(scores, part, present)}
    judged = ~part.grades.isnan()
    mine = torch.zeros_like(judged)
    mine[torch.arange(len(mine)), part.own] = True
    right = (part.grades >= part.at_least) | (mine & ~judged)
    found['P1'] = (first & right.gather(1, order)[..., None]).any(1).double()
    found['AP'] = _average_precision(scores, judged & ~mine, right, part, present)
    return found


def _listed(scores: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Columns of the items ``among``, best first, int64 [Q, L], and which of them are any."""
    longest = int(among.sum(1).max())
    order = scores.masked_fill(~among, -torch.inf).topk(longest, dim=1).indices
    return order, among.gather(1, order)


def _average_precision(
    scores: Tensor, among: Tensor, right: Tensor, part: Part, present: Tensor
) -> Tensor:
    order, real = _listed(scores, among)
    there = present[part.items[order]] & real[..., None]
    hits = there & right.gather(1, order)[..., None]
    precision = hits.cumsum(1) / there.cumsum(1).clamp_min(1)
    return (precision * hits).double().sum(1) / hits.sum(1)  # 0 / 0: NaN


def _gains(scores: Tensor, part: Part, present: Tensor) -> dict[str, Tensor]:
    """nDCG of the graded items, with the own one and without."""
    judged = ~part.grades.isnan()
    mine = torch.zeros_like(judged)
    mine[torch.arange(len(mine)), part.own] = True
    found = {}
    for name, among in (('nDCG', judged), ('nDCG_others', judged & ~mine)):
        sums = []
        for ranked in (scores, part.grades.nan_to_num(0.0)):
            order, real = _listed(ranked, among)
            there = present[part.items[order]] | mine.gather(1, order)[..., None]
            there &= real[..., None]
            gain = part.grades.nan_to_num(0.0).gather(1, order)[..., None] * there
            sums.append((gain / (1 + there.cumsum(1)).double().log2()).sum(1))
        found[name] = sums[0] / sums[1]
    return found


def gain(ours: Tensor, base: Tensor) -> list[float]:
    """Difference of two measures [D] and the ends of its 95 % interval."""
    change = ours - base
    drawn = change[FIXED:]
    drawn = drawn[~drawn.isnan()]
    ends = (drawn - drawn.mean()).quantile(torch.tensor([0.025, 0.975], dtype=drawn.dtype))
    return [round(float(x), 2) for x in (change[WHOLE], *(change[WHOLE] + ends))]
