"""All that a Debiaser knows, in one place."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.generations import Generations
from mmvtr.arrays.inputs import Bank, Vectors, read_ids
from mmvtr.arrays.topk_probabilities import TopKProbabilities
from mmvtr.functional.transforms.item_biases import ItemBiases

#: What a Debiaser says that was loaded alone.
ABSENT = 'the vectors of the gallery are not here'


class Absent(NamedTuple):
    """A gallery whose vectors are not here.

    Attributes:
        traces: float32 [N, 2], by which its rows are recognised (:mod:`mmvtr.arrays.saved`).
        width: of its vectors; None = not known, of a raw gallery saved by an older version.
    """

    traces: Tensor
    width: Optional[int]


class State(NamedTuple):
    """What a Debiaser was given and has fitted; a change replaces it as a whole, so that a search,
    export or save in another thread sees it before or after the change.

    Attributes:
        gallery: N items; None = not there.
        ids: their ids, [N]; None = row numbers.
        bank: queries seen before.
        fitted: the biases; None = raw scores.
        calibration: P(right) of places in lists.
        why: what was chosen, and why.
        generations: which change made each row.
        absent: the gallery, if its vectors are not here.
    """

    gallery: Optional[Vectors] = None
    ids: Optional[np.ndarray] = None
    bank: Optional[Bank] = None
    fitted: Optional[ItemBiases] = None
    calibration: Optional[TopKProbabilities] = None
    why: str = 'not fitted'
    generations: Generations = Generations()
    absent: Optional[Absent] = None

    @property
    def said(self) -> str:
        """What was chosen and why, and how many items the calibration has not seen."""
        return '; '.join(filter(None, [self.why, self.generations.uncalibrated]))

    def calibrated(self, calibration: Optional[TopKProbabilities]) -> State:
        """Return the state with a calibration, or without one."""
        after = self.generations.recalibrated(calibration is not None)
        return self._replace(calibration=calibration, generations=after)

    @property
    def width(self) -> Optional[int]:
        """Of the gallery's vectors; None = there is none."""
        if self.gallery is not None:
            return self.gallery.width
        return None if self.absent is None else self.absent.width

    def with_items(self) -> State:
        """Return the state; raise ValueError if it has no items, with vectors or without."""
        if self.width is None:
            raise ValueError('this Debiaser has no gallery yet: call fit(videos, bank)')
        return self

    def there(self) -> State:
        """Return the state; raise ValueError if it has no gallery, or an absent one."""
        if self.with_items().gallery is None:
            raise ValueError(f'{ABSENT}: give it to load(folder, videos)')
        return self

    @property
    def biases(self) -> Tensor:
        """Of the items, float32 [N]; 0 if raw scores rank."""
        items = len(self.generations.rows)
        return torch.zeros(items) if self.fitted is None else self.fitted.items

    def rows_of(self, ids: Any) -> Tensor:
        """Return the rows of items, int64 [n].

        Raises:
            TypeError, ValueError: no sequence of ids; an id that is unknown or occurs twice; a
                gallery without ids.
        """
        if self.ids is None:
            raise ValueError('items are named by their ids, and none were given to fit(ids=)')
        row_of = dict(zip(self.ids.tolist(), range(len(self.ids))))
        names = read_ids(ids, len(ids)).tolist()
        for name in names:
            if name not in row_of:
                raise ValueError(f'there is no item with the id {str(name)[:80]!r}')
        return torch.tensor([row_of[name] for name in names], dtype=torch.int64)
