"""Fitting of a transform's item biases to a bank and a gallery."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch
from torch import Tensor

from mmvtr.arrays.choice import Choice, choose
from mmvtr.arrays.inputs import Bank, Vectors, bank_tiles, score_tiles
from mmvtr.functional.similarities.tiles import ALIGNED, Tiles
from mmvtr.functional.transforms.item_biases import ItemBiases, fit_biases
from mmvtr.functional.transforms.transform_table import TRANSFORMS


def chosen(
    transform: Optional[str],
    options: Mapping[str, Any],
    bank: Optional[Bank],
    width: int,
    seed: int,
) -> Choice:
    """Return the transform to fit, with its options.

    Args:
        transform: ``'auto'``, None = raw, or a name of the table.
        options: its options.
        bank: queries seen before; None = no bank.
        width: of the gallery's vectors.
        seed: random seed of ``'auto'``.

    Raises:
        ValueError: the transform reads a bank, or a part of one, that was not given.
    """
    if transform is None:
        return Choice(None, {}, 'raw: as asked')
    if transform == 'auto':
        return choose(bank, seed=seed)
    if bank is None:
        raise ValueError(f'{transform} needs a bank: queries seen before, [B, {width}]')
    if TRANSFORMS[transform].reads_items and bank.items is None:
        raise ValueError(f'{transform} reads items seen before: bank=(texts, videos)')
    return Choice(transform, dict(options), f'{transform}: as asked, {bank.said}')


def fit_bank(
    chosen: Choice, bank: Optional[Bank], gallery: Vectors
) -> tuple[Optional[ItemBiases], str]:
    """Return the biases fitted to a bank (None = raw scores) and the reason."""
    if chosen.transform is None:
        return None, chosen.why
    tiles, extra = bank_tiles(bank.texts, gallery), _extra_inputs(chosen.transform, bank, gallery)
    return fit_scores(with_weights(chosen, bank), tiles, extra)


def with_weights(chosen: Choice, bank: Bank) -> Choice:
    """Return a choice with the bank's weights, if its transform takes some and none were given."""
    takes = 'bank_marginals' in TRANSFORMS[chosen.transform].options
    if takes and chosen.options.get('bank_marginals') is None:
        chosen = chosen._replace(options=dict(chosen.options, bank_marginals=bank.weights))
    return chosen


def fit_scores(
    chosen: Choice, tiles: Tiles, extra_inputs: Mapping[str, Tensor | Tiles]
) -> tuple[Optional[ItemBiases], str]:
    """Return the biases fitted to a bank's scores (None = raw scores) and the reason.

    Args:
        chosen: the transform to fit.
        tiles: the scores [K, N] of the bank with the gallery.
        extra_inputs: what the transform reads beside the bank.
    """
    if chosen.transform is None:
        return None, chosen.why
    if all(tiles.shape) and _all_alike(tiles):
        many = 'there is one item' if tiles.shape[1] == 1 else 'all items score alike with the bank'
        return None, f'raw: {many}: nothing to rank'
    return fit_biases(
        chosen.transform, tiles, extra_inputs=extra_inputs, **chosen.options
    ), chosen.why


def further(fitted: ItemBiases, bank: Bank, items: Vectors) -> Tensor:
    """Return the biases of further items, float [n]; those of the gallery do not change."""
    item_bank = None
    if 'item_bank' in TRANSFORMS[fitted.transform].reads:
        item_bank = bank_tiles(bank.items, items, 'item_bank')
    return fitted.further(bank_tiles(bank.texts, items), item_bank)


def activated(fitted: ItemBiases, bank: Bank, gallery: Vectors) -> ItemBiases:
    """Return a gated transform's biases with the active items of a changed gallery: other items can
    become the best one of a bank query."""
    tiles = score_tiles(bank.texts, gallery, 'bank')
    active = torch.zeros(len(gallery), dtype=torch.bool)
    active[tiles.best(fitted.options['neighbours'])[1].flatten().cpu()] = True
    return fitted._replace(active=active)


def _extra_inputs(transform: str, bank: Bank, items: Vectors) -> dict[str, Tiles]:
    reads = TRANSFORMS[transform].reads
    inputs = {}
    if 'bank_gallery' in reads:
        seen = Vectors.of(bank.items, bank.geometry)
        inputs['bank_gallery'] = bank_tiles(bank.texts, seen, 'bank_gallery')
    if 'item_bank' in reads:
        inputs['item_bank'] = bank_tiles(bank.items, items, 'item_bank')
    return inputs


def _all_alike(tiles: Tiles) -> bool:
    """Return whether every query scores all items alike; the first columns mostly rule it out."""
    first = tiles.columns(slice(0, min(tiles.width, tiles.shape[1], ALIGNED)))
    if not torch.allclose(first, first[:, :1]):
        return False
    first = None
    for _, tile in tiles.parts():
        first = tile[:, :1] if first is None else first
        if not (tile == first).all():
            return False
    return True
