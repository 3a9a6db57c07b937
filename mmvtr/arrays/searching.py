"""The best of a gallery for each query, in one pass over its tiles."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import Tiles
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform_table import TRANSFORMS

#: Queries whose scores are made at a time.
QUERIES = 1024


def ranked(
    tiles: Tiles, fitted: Optional[ItemBiases], k: int, temperature: Optional[float]
) -> tuple[Tensor, ...]:
    """Return the k best of N items for each query.

    Args:
        tiles: of the scores [Q, N].
        fitted: what ranks them; None = the scores.
        k: 1 or more; all where there are fewer.
        temperature: divides what ranks in the sums; None: no sums are asked for.

    Returns:
        Places by the raw scores [Q, k]; by what ranks: places, raw scores and what ranks [Q, k];
        log sums of what ranks over the temperature [Q], zeros without one.
    """
    items = tiles.shape[1]
    if fitted is not None and TRANSFORMS[fitted.transform].form == 'row':
        whole = torch.cat([tile for _, tile in tiles.parts()], dim=1)
        changed, raw = fitted.changed(whole), whole.topk(min(k, items))
        debiased, places = changed.topk(min(k, items))
        log_sums = changed.new_zeros(len(whole))
        if temperature is not None:
            log_sums = (changed.double() / temperature).logsumexp(1)
        return raw.indices, places, whole.gather(1, places), debiased, log_sums
    like = tiles.columns(slice(0, 1))
    added = None if fitted is None else fitted.items.to(like)
    gate = None
    if fitted is not None and fitted.active is not None:
        best = tiles.best(1)[1][:, 0]
        gate = fitted.active.to(like.device)[best].to(like)[:, None]
    return one_pass(tiles, k, added, gate, temperature)


def temperature_of(fit: Any) -> Optional[float]:
    """Return the one of a calibration that reads sums over the gallery; None of another."""
    if fit is None or getattr(fit, 'method', 'temperature') != 'temperature':
        return None
    return fit.temperature


def one_pass(
    tiles: Tiles,
    k: int,
    added: Optional[Tensor],
    gate: Optional[Tensor],
    temperature: Optional[float],
) -> tuple[Tensor, ...]:
    """Raw places [Q, k]; places, raw scores, debiased [Q, k]; log sums [Q], in one pass.

    Where nothing is added, [N], both lists are one.
    """
    raw: list[Tensor] = []
    debiased: list[Tensor] = []
    log_sums = None
    for part, tile in tiles.parts():
        raw = _merged(raw, tile, tile, part.start, k)
        changed = tile
        if added is not None:
            changed = tile + (added[part] if gate is None else gate * added[part])
            debiased = _merged(debiased, changed, tile, part.start, k)
        if temperature is not None:
            sums = (changed.double() / temperature).logsumexp(1)
            log_sums = sums if log_sums is None else torch.logaddexp(log_sums, sums)
    if log_sums is None:
        log_sums = raw[0].new_zeros(tiles.shape[0])
    found = raw if added is None else debiased
    return raw[1], found[1], found[2], found[0], log_sums


def _merged(held: list[Tensor], order: Tensor, scores: Tensor, start: int, k: int) -> list[Tensor]:
    """The k highest so far: what orders them, their places, their raw scores, [Q, k] each."""
    top = order.topk(min(k, order.shape[1]), dim=1)
    new = [top.values, top.indices + start, scores.gather(1, top.indices)]
    if not held:
        return new
    both = [torch.cat(pair, dim=1) for pair in zip(held, new)]
    kept = both[0].topk(min(k, both[0].shape[1]), dim=1).indices
    return [x.gather(1, kept) for x in both]
