"""Which change made each row: how far a gallery has gone from its fit, and whether an engine that
holds its rows is behind."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor


class Stale(NamedTuple):
    """How far a gallery has gone from what its biases were fitted to.

    Attributes:
        added: share of the items that were added or updated after the fit, in [0, 1].
        removed: share of the fitted items that were removed or updated, in [0, 1].
        drift: mean bias of the items added minus that of those fitted, in standard deviations of
            the latter; 0 if items are added as the fitted ones are distributed.
    """

    added: float
    removed: float
    drift: float

    @classmethod
    def of(cls, biases: Any, later: Any, fitted: int) -> Stale:
        """Return it for N items.

        Args:
            biases: float [N], numpy or torch.
            later: bool [N], which items came after the fit.
            fitted: how many items were fitted.
        """
        biases, later = (torch.as_tensor(x) for x in (biases, later))
        new, old = biases[later].double(), biases[~later].double()
        share = len(new) / max(1, len(biases))
        removed = 1 - len(old) / fitted if fitted else 0.0
        spread = old.std(correction=0).item() if len(old) else 0.0
        drift = (new.mean() - old.mean()).item() / spread if len(new) and spread else 0.0
        return cls(share, removed, drift)

    def __str__(self) -> str:
        return (
            f'{self.added:.0%} of the items were added after the fit, {self.removed:.0%} of the '
            f'fitted ones are gone; the mean bias of those added differs by {self.drift:+.2f} '
            'standard deviations'
        )


class Behind(NamedTuple):
    """Rows in which an index differs from the gallery; all empty: it is of the gallery's state.

    Attributes:
        changed: ids of rows that another change made: to be written again.
        removed: ids of rows whose items are gone: to be deleted.
        missing: ids of items that the index lacks: to be written.
    """

    changed: list[Any]
    removed: list[Any]
    missing: list[Any]


class Generations(NamedTuple):
    """The number of the change that made each row.

    Attributes:
        rows: int64 [N]; a fit makes all rows, an addition or update those of its items.
        last: number of the last change, of whichever kind.
        fit: number of the change that fitted the biases.
        fitted: how many items were fitted.
        calibrated: number of the change that calibrated; 0 = not calibrated.
    """

    rows: Tensor = torch.zeros(0, dtype=torch.int64)
    last: int = 0
    fit: int = 0
    fitted: int = 0
    calibrated: int = 0

    def refitted(self, items: int) -> Generations:
        """Return those after a fit of N items."""
        last = self.last + 1
        return Generations(torch.full((items,), last), last, last, items)

    def changed(self, gone: Tensor, added: int) -> Generations:
        """Return those after a removal of rows, bool [N], and an addition of items."""
        new = torch.full((added,), self.last + 1)
        return self._replace(rows=torch.cat([self.rows[~gone], new]), last=self.last + 1)

    def recalibrated(self, there: bool) -> Generations:
        """Return those after a calibration, or after one is dropped."""
        last = self.last + 1
        return self._replace(last=last, calibrated=last if there else 0)

    @property
    def uncalibrated(self) -> str:
        """A note if items came after the calibration, else ``''``."""
        share = (self.rows > self.calibrated).double().mean().item() if len(self.rows) else 0.0
        if not self.calibrated or not share:
            return ''
        return f'{share:.0%} of the items were added after the calibration of P(right)'


def behind(
    gallery_ids: Sequence[Any], rows: Tensor, ids: Sequence[Any], generations: Sequence[int]
) -> Behind:
    """Return where an index differs from the gallery.

    Args:
        gallery_ids: the gallery's ids, [N].
        rows: int64 [N], the generations of its rows.
        ids: ids in the index, [n].
        generations: the generations that were written beside them, [n].

    Raises:
        ValueError: not one generation for each id.
    """
    generations = np.asarray(generations).reshape(-1)
    if len(ids) != len(generations):
        raise ValueError(f'{len(ids)} ids and {len(generations)} generations: one each is expected')
    now = dict(zip(gallery_ids, rows.tolist()))
    written = dict(zip(ids, generations.tolist()))
    return Behind(
        changed=[x for x, number in written.items() if now.get(x, number) != number],
        removed=[x for x in written if x not in now],
        missing=[x for x in now if x not in written],
    )
