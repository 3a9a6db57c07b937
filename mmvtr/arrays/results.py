"""What a search over a gallery gives: ids, scores, probabilities, and what became of hubs."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, Callable, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.hubs import Suspect
from mmvtr.functional.metrics.hubness import skewness

Array = Union[np.ndarray, Tensor]


@dataclasses.dataclass(frozen=True)
class Hubs:
    """How unevenly the gallery is found, in the lists of k before and after the transform.

    Attributes:
        raw, debiased: skewness of how many lists an item is in; 0 = even, above 1.5 hubs.
        most_raw, most_debiased: in how many lists the item is that is in most.
        never_raw, never_debiased: share of the items that no list has, in [0, 1].
        look: finds the suspects, with the bank and the gallery as they are then; None without a
            bank.
    """

    raw: float
    debiased: float
    most_raw: int
    most_debiased: int
    never_raw: float
    never_debiased: float
    look: Optional[Callable[[], list[Suspect]]] = dataclasses.field(repr=False, compare=False)

    @cached_property
    def suspects(self) -> Optional[list[Suspect]]:
        """Items that look made to be found, by the bank's queries and raw scores
        (:func:`mmvtr.hub_report`); None without a bank.  They are looked for when first read."""
        return None if self.look is None else self.look()


@dataclasses.dataclass(frozen=True, repr=False)
class Retrieved:
    """The k best videos of each of Q texts, best first.  Arrays are of the texts' kind.

    Attributes:
        ids: [Q, k], those that were given (numpy where they are no integers), or row numbers.
        scores: float32 [Q, k], raw: cosines or inner products.
        debiased: float32 [Q, k], what the order is by: scores and the biases of the items.
        probabilities: float64 [Q, k], P(this place is right), or None without a calibration.
        any_right: float64 [Q, k], P(one of the places down to this one is right), of a calibrated
            Debiaser, else None.
        hubs: what the transform did to hubs.
        transform: its name; None = raw.
        options: of it, as numbers.
        why: a sentence that says what was chosen and why.
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

    def __repr__(self) -> str:
        return f'Retrieved({list(self.ids.shape)}, {self.why[:80]!r})'


def hubs_of(
    raw: Tensor, debiased: Tensor, items: int, look: Optional[Callable[[], list[Suspect]]]
) -> Hubs:
    """Return what lists of places [Q, k] before and after a transform say of N items."""
    counts = [torch.bincount(x.flatten(), minlength=items) for x in (raw, debiased)]
    values = (
        [skewness(x).item() for x in counts],
        [int(x.max()) for x in counts],
        [(x == 0).double().mean().item() for x in counts],
    )
    return Hubs(*(one for pair in values for one in pair), look)


def like(given: Any) -> Callable[[Tensor], Array]:
    """Return what makes tensors arrays of the kind of ``given``, which may be :class:`Tokens`."""
    given = getattr(given, 'vectors', given)
    return (lambda x: x.cpu().numpy()) if isinstance(given, np.ndarray) else (lambda x: x)
