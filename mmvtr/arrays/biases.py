"""What the transforms add to the items of a gallery, by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import Tiles
from mmvtr.functional.transforms.score_transforms import activation_set
from mmvtr.functional.transforms.transform_table import TRANSFORMS, transform_named

#: Those that add a number to each item, to all queries or to some of them.
NAMES = (
    'sinkhorn',
    'unbalanced_sinkhorn',
    'inverted_softmax',
    'qb_norm',
    'csls',
    'local_scaling',
    'nnn',
    'dbsn',
    'db_norm',
)
#: Share of the reach that a temperature is, where none is given.
SHARE = 0.2


class Biases(NamedTuple):
    """What changes the scores of a gallery of N items.

    Attributes:
        items: float32 [N], added to the scores, in their unit.
        active: bool [N]; only queries whose best item is one of these are changed.  None: all.
    """

    items: Tensor
    active: Optional[Tensor] = None


def reach(scores: Tiles) -> float:
    """How far a query's best score lies above its mean, averaged over the queries.

    ``(scores.amax(1) - scores.mean(1)).mean()``: the unit in which temperatures carry over from
    scores of one model to those of another (docs/judgments.md).

    Args:
        scores: tiles of float [Q, N].

    Example:
        ::

            >>> from mmvtr.functional import as_tiles
            >>> round(reach(as_tiles(torch.tensor([[0.5, 0.1], [0.2, 0.4]]))), 3)
            0.15
    """
    best, total = None, 0.0
    for _, tile in scores.parts():
        top = tile.amax(1)
        best = top if best is None else torch.maximum(best, top)
        total = total + tile.double().sum(1)
    return (best.double() - total / scores.shape[1]).mean().item()


def biases_of(
    name: str, bank: Tiles, *, beside: Mapping[str, Tiles] = MappingProxyType({}), **options: Any
) -> Biases:
    """Biases of a gallery by a transform.

    Args:
        name: one of :data:`NAMES`.
        bank: tiles of float [B, N].
        beside: what else the transform reads by name, of items seen before (its ``reads``).
        **options: of the function of that name in :mod:`mmvtr.functional`; its ``k`` is
            called ``neighbours``; in place of a ``temperature`` there may be ``reach``, a share of
            :func:`reach`.

    Raises:
        ValueError: an unknown name or option, both of the two; no items seen before for one that
            reads them; the dynamic form of ``db_norm``, which adds no bias; as of the function.
    """
    transform = transform_named(name, NAMES)
    taken = {'neighbours' if one == 'k' else one for one in transform.options}
    known = {*taken, *({'reach'} if 'temperature' in transform.options else ())}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(f'{name} takes {sorted(known)}, not {unknown[0]!r}')
    if 'neighbours' in options:
        options['k'] = options.pop('neighbours')
    if options.get('dynamic'):
        raise ValueError(
            f'the dynamic form of {name} adds no biases: mmvtr.functional.{name} has it'
        )
    read = {one for one in transform.reads if one in ('bank_gallery', 'item_bank')}
    if read - {*beside}:
        raise ValueError(f'{name} reads items seen before: bank=(texts, videos)')
    if bank.shape[1] == 1:  # nothing to rank
        return Biases(torch.zeros(1))
    if 'temperature' in known:
        options = dict(_with_temperature(bank, **options))
    if name == 'qb_norm':
        active = activation_set(bank, k=options.pop('k', 1))
        return Biases(TRANSFORMS['inverted_softmax'].biases(bank, **options), active)
    if name == 'csls':  # the order of csls in units of scores
        k = options.get('k', transform.options['k'])
        return Biases(TRANSFORMS['nnn'].biases(bank, k=k, alpha=0.5))
    return Biases(transform.biases(bank, **options, **beside))


def _with_temperature(bank: Tiles, **options: Any) -> dict[str, Any]:
    if 'temperature' in options:
        if 'reach' in options:
            raise ValueError('temperature or reach, not both')
        return options
    share = options.pop('reach', SHARE)
    if not share > 0:
        raise ValueError(f'reach must be positive, not {share}')
    return dict(options, temperature=share * reach(bank.finite()))
