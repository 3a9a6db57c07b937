"""All that a Debiaser knows, in one place."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np

from mmvtr.arrays.inputs import Bank, Vectors
from mmvtr.arrays.topk_probabilities import TopKProbabilities
from mmvtr.functional.transforms.item_biases import ItemBiases


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
    """

    gallery: Optional[Vectors] = None
    ids: Optional[np.ndarray] = None
    bank: Optional[Bank] = None
    fitted: Optional[ItemBiases] = None
    calibration: Optional[TopKProbabilities] = None
    why: str = 'not fitted'

    @property
    def said(self) -> str:
        """What was chosen and why, and how many items the calibration has not seen."""
        added = ''
        if self.calibration is not None and self.gallery is not None:
            added = self.calibration.added(len(self.gallery))
        return '; '.join(filter(None, [self.why, added]))
