"""A transform fitted to a bank: the biases of its items, and the transformed scores.

All code that debiases scores uses :func:`fit_biases`, so that all results agree.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Optional

from torch import Tensor

from mmvtr.functional.similarities.tiles import Tiles, as_tiles, refuse_non_finite, score_gap
from mmvtr.functional.transforms.transform import ITEM_INPUTS, TRANSFORMS, Transform
from mmvtr.functional.transforms.transform_table import transform_named
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

    @property
    def fitted_transform(self) -> Transform:
        """The transform with these options."""
        return TRANSFORMS[self.transform](**self.options)

    def transform_scores(self, scores: Tensor) -> Tensor:
        """Return transformed scores: score + bias if the transform is additive.

        Args:
            scores: float [Q, N], raw, of queries with all items.

        Returns:
            float [Q, N], float32 or better.
        """
        refuse_non_finite(scores)
        raw = at_least_float32(scores)
        return self.fitted_transform.apply(raw, self.items.to(raw), self.active)

    def further(self, bank: Tensor | Tiles, item_bank: Optional[Tensor | Tiles] = None) -> Tensor:
        """Return the biases of further items, float [n]; those of the other items do not change.

        Args:
            bank: float [K, n], scores of the same bank queries with these items, or its tiles.
            item_bank: float [M, n], scores of the same items seen before with these, if they are
                read.
        """
        items = {} if item_bank is None else dict(item_bank=as_tiles(item_bank))
        return self.fitted_transform.further(as_tiles(bank), self.rows, **items) - self.shift


def fit_biases(
    transform: str,
    bank: Tensor | Tiles,
    *,
    extra_inputs: Mapping[str, Tensor | Tiles] = _NOTHING,
    **options: Any,
) -> ItemBiases:
    """Return a transform fitted to a bank.

    Args:
        transform: name of a transform that reads a bank.
        bank: float [K, N], scores of K queries seen before with the N items, or its tiles.
        extra_inputs: what the transform reads beside the bank, by name: ``bank_gallery`` [K, M],
            ``item_bank`` [M, N].
        **options: its options; None = the default, for ``neighbours`` at most the bank.  A
            ``temperature`` is in units of scores, or a share of the bank's :func:`.score_gap`,
            such as ``'20%'``, its default.

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
    kind = transform_named(transform)
    if 'bank' not in kind.reads:
        raise ValueError(f'{transform} is not fitted to a bank: it reads {kind.reads}')
    checked = kind.checked(options)
    tiles = kind.prepared(as_tiles(bank)._replace(name='bank'))
    missing = {*ITEM_INPUTS} & {*kind.reads} - {*extra_inputs}
    if missing:
        raise ValueError(f'{transform} reads items seen before: bank=(texts, videos)')
    extra = {name: as_tiles(x)._replace(name=name) for name, x in extra_inputs.items()}
    if not tiles.shape[0]:
        raise ValueError(f'the bank is empty {list(tiles.shape)}: it needs queries seen before')
    kind(**checked).check_fit()
    inputs = dict(extra, bank=tiles)
    resolved = kind.of_bank(options, tiles.shape[0], lambda name: score_gap(inputs[name]))
    fitted = kind(**resolved)
    items, rows = fitted.fit(tiles, **extra)
    shift = items.mean().item() if kind.form == 'additive' else 0.0
    return ItemBiases(transform, resolved, items - shift, shift, fitted.active(tiles), rows)
