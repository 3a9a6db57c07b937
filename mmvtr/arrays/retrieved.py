"""The result of a search over a gallery: ids, scores, probabilities, and hubness statistics."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, Callable, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.hubs import Suspect
from mmvtr.arrays.shift import Shift
from mmvtr.functional.metrics.hubness import skewness

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
