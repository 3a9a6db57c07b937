"""The result of a search over a gallery: ids, scores, probabilities, and hubness statistics."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.hubs import Suspect
from mmvtr.arrays.shift import Shift
from mmvtr.functional.metrics.hubness import skewness
from mmvtr.functional.similarities.tiles import ENTRIES, Tiles, top_of_rows
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform_table import TRANSFORMS

Array = Union[np.ndarray, Tensor]


class Hubs:
    """How unevenly items are found, in the top-k lists before and after the transform; computed
    when first read.

    Args:
        lists: int64 [Q, k] each, the lists before and after.
        items: N.
        look: finds the suspects from the bank and the gallery at the time of the call; None without
            a bank.
    """

    def __init__(
        self, lists: tuple[Tensor, Tensor], items: int, look: Optional[Callable[[], list[Suspect]]]
    ) -> None:
        self._lists, self._items, self._look = lists, items, look

    @cached_property
    def _counts(self) -> tuple[Tensor, Tensor]:
        """Number of lists that each item is in."""
        raw, debiased = (torch.bincount(x.flatten(), minlength=self._items) for x in self._lists)
        return raw, debiased

    @cached_property
    def raw(self) -> float:
        """Skewness of the number of lists that an item is in; 0 = even, above 1.5 hubs."""
        return skewness(self._counts[0]).item()

    @cached_property
    def debiased(self) -> float:
        """The same after the transform."""
        return skewness(self._counts[1]).item()

    @property
    def most_raw(self) -> int:
        """Number of lists that contain the most frequent item."""
        return int(self._counts[0].max())

    @property
    def most_debiased(self) -> int:
        """The same after the transform."""
        return int(self._counts[1].max())

    @property
    def never_raw(self) -> float:
        """Share of the items that are in no list, in [0, 1]."""
        return (self._counts[0] == 0).double().mean().item()

    @property
    def never_debiased(self) -> float:
        """The same after the transform."""
        return (self._counts[1] == 0).double().mean().item()

    @cached_property
    def suspects(self) -> Optional[list[Suspect]]:
        """Items that look made to be found, from the bank's queries and raw scores
        (:func:`mmvtr.hub_report`); None without a bank."""
        return None if self._look is None else self._look()

    def __repr__(self) -> str:
        return f'Hubs(raw={self.raw:.3g}, debiased={self.debiased:.3g})'


@dataclasses.dataclass(frozen=True, repr=False)
class Retrieved:
    """The k best videos of each of Q texts, best first; arrays have the texts' type.

    Attributes:
        ids: [Q, k], the given ids (a numpy array unless they are integers), or row numbers.
        scores: float32 [Q, k], raw: cosines or inner products.
        debiased: float32 [Q, k], the scores plus the items' biases, which define the order.
        probabilities: float64 [Q, k], P(this place is the first right one), or None without a
            calibration.
        any_right: float64 [Q, k], P(a place up to this one is right); None unless the Debiaser
            is calibrated.
        hubs: what the transform did to hubs.
        transform: its name; None = raw.
        options: its options as numbers.
        why: a sentence that says what was chosen and why.
        shift: how far the texts are from the bank's; None unless the Debiaser is calibrated and
            there are 100 different texts.
    """

    ids: Any
    scores: Array
    debiased: Array
    probabilities: Optional[Array]
    any_right: Optional[Array]
    hubs: Hubs
    transform: Optional[str]
    options: dict[str, Any]
    why: str
    shift: Optional[Shift] = None

    def __repr__(self) -> str:
        return f'Retrieved({list(self.ids.shape)}, {self.why[:80]!r})'


def like(given: Any) -> Callable[[Tensor], Array]:
    """Return a function that converts tensors to the type of ``given`` (:class:`Tokens` too)."""
    given = getattr(given, 'vectors', given)
    return (lambda x: x.cpu().numpy()) if isinstance(given, np.ndarray) else (lambda x: x)


def checked_k(k: Any) -> int:
    """Return the length of lists as an int.

    Raises:
        ValueError: it is not an integer of 1 or more.

    Example:
        ::

            >>> checked_k(np.int64(2))
            2
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f'k must be an integer of 1 or more, not {str(k)[:80]!r}')
    return int(k)


#: Queries that are scored at a time.
QUERIES = 1024


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


def temperature_of(fit: Any) -> Optional[float]:
    """Return the temperature of a calibration that reads sums over the gallery, else None."""
    if fit is None or getattr(fit, 'method', 'temperature') != 'temperature':
        return None
    return fit.temperature


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
            kept = both[0].sort(dim=1, descending=True, stable=True).indices[:, : self._k]
            new = tuple(x.gather(1, kept) for x in both)
            if self._temperature is not None:
                sums = torch.logaddexp(self.log_sums, sums)
        (self.order, self.places, self.scores), self.log_sums = new, sums
