"""The k best items of each query, by raw and by ranking score, in one pass over tiles."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import ENTRIES, Tiles, top_of_rows
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform_table import TRANSFORMS


class Ranked(NamedTuple):
    """The k best of N items for each of Q queries, by raw and by ranking score.

    Attributes:
        raw_places, raw_scores: [Q, k], by raw score.
        places, scores, debiased: [Q, k], places, raw scores and ranking scores, by ranking score.
        log_sums: [Q], logsumexp of ranking scores / temperature, or zeros.
    """

    raw_places: Tensor
    raw_scores: Tensor
    places: Tensor
    scores: Tensor
    debiased: Tensor
    log_sums: Tensor


def ranked(
    tiles: Tiles, fitted: Optional[ItemBiases], k: int, temperature: Optional[float]
) -> Ranked:
    """Return the k best of N items for each query.

    Args:
        tiles: the scores [Q, N].
        fitted: the biases that rank them; None = raw scores.
        k: 1 or more; all if there are fewer.
        temperature: divides the ranking scores in the log sums; None = no log sums.
    """
    if fitted is not None and TRANSFORMS[fitted.transform].form == 'row':
        whole = torch.cat([tile for _, tile in tiles.parts()], dim=1)
        some = whole.split(max(1, ENTRIES // whole.shape[1]))
        return Ranked(*map(torch.cat, zip(*(_of_rows(x, fitted, k, temperature) for x in some))))
    added = None if fitted is None else fitted.items.to(tiles.columns(slice(0, 1)))
    return one_pass(tiles, k, added, None if fitted is None else fitted.active, temperature)


def _of_rows(whole: Tensor, fitted: ItemBiases, k: int, temperature: Optional[float]) -> Ranked:
    """Return what :func:`ranked` returns, of scores [q, N] that are transformed row by row."""
    changed = fitted.transform_scores(whole)
    debiased, places = top_of_rows(changed, k)
    log_sums = changed.new_zeros(len(whole))
    if temperature is not None:
        log_sums = (changed.double() / temperature).logsumexp(1)
    best, raw = top_of_rows(whole, k)
    return Ranked(raw, best, places, whole.gather(1, places), debiased, log_sums)


def one_pass(
    tiles: Tiles,
    k: int,
    added: Optional[Tensor],
    active: Optional[Tensor],
    temperature: Optional[float],
) -> Ranked:
    """Return what :func:`ranked` returns, of an additive or a gated transform, in one pass.

    Args:
        tiles, k, temperature: see :func:`ranked`.
        added: float [N], biases; None = none, and both lists are the same.
        active: bool [N]: biases are added only for queries whose best item is active; None = all.
    """
    raw = _Best(k, temperature if added is None or active is not None else None)
    debiased = raw if added is None else _Best(k, temperature)
    highest: Any = -torch.inf
    gate: Any = False
    for part, tile in tiles.parts():
        raw.add(tile, tile, part.start)
        if added is not None:
            debiased.add(tile + added[part], tile, part.start)
        if active is not None:
            first = tile.max(1)
            gated = active[part].to(tile.device)[first.indices]
            gate = torch.where(first.values > highest, gated, gate)
            highest = first.values.clamp_min(highest)
    if active is not None:
        as_they_are = ~gate
        for name in ('places', 'scores', 'order', 'log_sums'):
            getattr(debiased, name)[as_they_are] = getattr(raw, name)[as_they_are]
    of_raw = raw.places, raw.order
    return Ranked(*of_raw, debiased.places, debiased.scores, debiased.order, debiased.log_sums)


class _Best:
    """The k best items of each row so far: places, scores and sort keys, [Q, k]; logsumexp of the
    keys / temperature, [Q], or zeros."""

    def __init__(self, k: int, temperature: Optional[float]) -> None:
        self._k, self._temperature = k, temperature
        self.order = self.places = self.scores = self.log_sums = torch.empty(0)

    def add(self, order: Tensor, scores: Tensor, start: int) -> None:
        """Read a further tile of sort keys and scores."""
        values, top = top_of_rows(order, self._k)
        new = values, top + start, scores.gather(1, top)
        sums = order.new_zeros(len(order))
        if self._temperature is not None:
            sums = (order.double() / self._temperature).logsumexp(1)
        if self.order.dim() == 2:  # not the first
            before = self.order, self.places, self.scores
            both = [torch.cat(pair, dim=1) for pair in zip(before, new)]
            best = both[0].sort(dim=1, descending=True, stable=True).indices[:, : self._k]
            new = tuple(x.gather(1, best) for x in both)
            if self._temperature is not None:
                sums = torch.logaddexp(self.log_sums, sums)
        (self.order, self.places, self.scores), self.log_sums = new, sums
