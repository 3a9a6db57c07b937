"""A transform fitted to a bank: the biases of its items, and the transformed scores.

All code that debiases scores uses :func:`fit_biases`, so that all results agree.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.metrics.first_places import first_places
from mmvtr.functional.similarities.tiles import Tiles, as_tiles, reach, refuse_non_finite
from mmvtr.functional.transforms.dual_banks import dbsn_rows, own_share
from mmvtr.functional.transforms.score_transforms import activation_set, nearest_mean, times_exp
from mmvtr.functional.transforms.sinkhorn import column_biases, in_own_unit, sinkhorn
from mmvtr.functional.transforms.transform_table import (
    TransformSpec,
    checked_options,
    share_of,
    transform_named,
)
from mmvtr.functional.values import at_least_float32

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ItemBiases(NamedTuple):
    """A transform fitted to a bank and a gallery of N items.

    Attributes:
        transform: its name.
        options: all its options, the temperature in units of scores.
        items: float [N], the bias of each item, with mean 0 if the transform is additive.
        shift: the mean that was subtracted; it is subtracted from further items too.
        active: bool [N], for a gated transform: queries whose best item is active are changed.
        rows: float [K], for Sinkhorn and its variants: row biases, from which further items get
            theirs.
    """

    transform: str
    options: dict[str, Any]
    items: Tensor
    shift: float = 0.0
    active: Optional[Tensor] = None
    rows: Optional[Tensor] = None

    def changed(self, scores: Tensor) -> Tensor:
        """Return transformed scores: score + bias if the transform is additive.

        Args:
            scores: float [Q, N], raw, of queries with all items.

        Returns:
            float [Q, N], float32 or better.
        """
        refuse_non_finite(scores)
        raw = at_least_float32(scores)
        items = self.items.to(raw)
        if self.active is not None:
            best = raw.argmax(1, keepdim=True)
            gate = self.active.to(raw.device).expand_as(raw).gather(1, best)[:, 0]
            return torch.where(gate[:, None], raw + items, raw)
        if self.transform == 'dual_softmax':
            return times_exp(raw, (raw + items) / self.options['temperature'])
        if self.transform == 'hedged_scaling':
            first, rest, places = (self.options[x] for x in ('first', 'strength', 'places'))
            return first_places(raw + rest * items, raw + first * items, places=places)
        return raw + items

    def further(self, bank: Tensor | Tiles, item_bank: Optional[Tensor | Tiles] = None) -> Tensor:
        """Return the biases of further items, float [n]; those of the other items do not change.

        Args:
            bank: float [K, n], scores of the same bank queries with these items, or its tiles.
            item_bank: float [M, n], scores of the same items seen before with these, if they are
                read.
        """
        return _columns(self.transform, as_tiles(bank), self.rows, self.options, item_bank) - (
            self.shift
        )


def fit_biases(
    transform: str,
    bank: Tensor | Tiles,
    *,
    beside: Mapping[str, Tensor | Tiles] = _NOTHING,
    **options: Any,
) -> ItemBiases:
    """Return a transform fitted to a bank.

    Args:
        transform: name of a transform that reads a bank.
        bank: float [K, N], scores of K queries seen before with the N items, or its tiles.
        beside: the other matrices that the transform reads, by name: ``bank_gallery`` [K, M],
            ``item_bank`` [M, N].
        **options: its options; None = the default, for ``neighbours`` at most the bank.  A
            ``temperature`` is in units of scores, or a share of the bank's :func:`.reach`, such as
            ``'20%'``, its default.

    Raises:
        ValueError: an unknown transform or option, a missing one without a default, or one out of
            range; a transform that reads items seen before, without them; the dynamic form of
            ``db_norm``, which is not a bias of each item.

    Example:
        Item 0 is near to both bank queries. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
            >>> fit_biases('nnn', bank, neighbours=1, alpha=0.5).items
            tensor([-0.0500,  0.0500])
    """
    spec = transform_named(transform)
    if 'bank' not in spec.reads:
        raise ValueError(f'{transform} is not fitted to a bank: it reads {spec.reads}')
    tiles = as_tiles(bank)._replace(name='bank')
    if spec.as_sinkhorn is not None:
        tiles = tiles.coded()
    elif 'temperature' in spec.options or spec.form == 'gated':  # the others read each score once
        tiles = tiles.kept()
    given = _options(transform, spec, tiles, options)
    missing = {'bank_gallery', 'item_bank'} & {*spec.reads} - {*beside}
    if missing:
        raise ValueError(f'{transform} reads items seen before: bank=(texts, videos)')
    read = {name: as_tiles(x)._replace(name=name) for name, x in beside.items()}
    if not tiles.shape[0]:
        raise ValueError(f'the bank is empty {list(tiles.shape)}: it needs queries seen before')
    if 'item_temperature' in given and given['item_temperature'] is None:
        given['item_temperature'] = own_share(given['temperature'], tiles, read['item_bank'])
    rows, items = _sinkhorn(transform, tiles, given, read)
    if items is None:
        items = _columns(transform, tiles, rows, given, read.get('item_bank'))
    active = activation_set(tiles, k=given['neighbours']) if spec.form == 'gated' else None
    shift = items.mean().item() if spec.form == 'additive' else 0.0
    return ItemBiases(transform, given, items - shift, shift, active, rows)


def _temperature(given: Any, bank: Tiles) -> float:
    """Return a temperature in units of scores; a share such as '20%' is of the bank's reach."""
    value, is_share = share_of(given)
    if not is_share:
        return value
    found = value * reach(bank)
    if not found > 0:
        raise ValueError('all items score alike with the bank: nothing to rank, and the reach is 0')
    return found


def _options(
    transform: str, spec: TransformSpec, bank: Tiles, given: Mapping[str, Any]
) -> dict[str, Any]:
    found = checked_options(transform, given)
    if found.get('dynamic'):
        raise ValueError(
            f'the dynamic form of {transform} does not give one bias per item: call '
            f'mmvtr.functional.{transform}'
        )
    if 'temperature' in found:
        found['temperature'] = _temperature(found['temperature'], bank)
    if given.get('neighbours') is None and 'neighbours' in found:
        found['neighbours'] = min(found['neighbours'], bank.shape[0])
    return found


def _sinkhorn(
    transform: str, bank: Tiles, options: Mapping[str, Any], read: Mapping[str, Tiles]
) -> tuple[Optional[Tensor], Optional[Tensor]]:
    """Return Sinkhorn-like row biases [K] and, if they come with them, item biases [N]; or None."""
    spec = transform_named(transform)
    if transform == 'dbsn':
        chosen = {name: options[name] for name in ('temperature', 'iterations')}
        return dbsn_rows(bank, read['bank_gallery'], **chosen), None
    if spec.as_sinkhorn is None:
        return None, None
    chosen = {**options, **spec.as_sinkhorn}
    chosen['row_marginals'] = chosen.pop('bank_marginals', None)
    found = sinkhorn(bank, **chosen)
    unit = {name: chosen[name] for name in ('temperature', 'strictness')}
    return found.rows, in_own_unit(found.columns, bank, found.rows, **unit)


def _columns(
    transform: str,
    bank: Tiles,
    rows: Optional[Tensor],
    options: Mapping[str, Any],
    item_bank: Optional[Tensor | Tiles],
) -> Tensor:
    """Return the bias of each item, float [n]; an item's bias depends on no other item."""
    temperature = options.get('temperature')
    if rows is not None:
        strictness = {**options, **transform_named(transform).as_sinkhorn}['strictness']
        return strictness * column_biases(bank, rows, temperature=temperature)
    if transform in ('qb_norm', 'dual_softmax', 'db_norm'):
        found = _inverted(bank, temperature)
        if transform != 'db_norm':
            return found
        second = options['item_temperature']
        of_items = _inverted(as_tiles(item_bank), second).to(found)
        return (second * found + temperature * of_items) / (temperature + second)
    if 'neighbours' in options:
        near = nearest_mean(bank, options['neighbours'])
        return -(0.5 if transform == 'csls' else options['alpha']) * near
    near = nearest_mean(bank, max(1, round(options['share'] * bank.shape[0])))
    return -near if transform == 'hedged_scaling' else -options['strength'] * near


def _inverted(bank: Tiles, temperature: float) -> Tensor:
    return column_biases(bank, torch.zeros(bank.shape[0]), temperature=temperature)
