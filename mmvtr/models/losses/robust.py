"""RINCE loss on a score matrix."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mmvtr.functional.losses.contrastive import Sums
from mmvtr.functional.losses.robust import check_rince, rince_of_sums
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.registry import MODELS


@MODELS.register_module()
class RINCELoss(ContrastiveLoss):
    """Robust InfoNCE (Chuang et al., CVPR 2022), see :func:`.rince`.

    Args:
        q, density: see :func:`.rince`; they depend on the temperature.
        direction, weighted, reads, loss_weight: see
            :class:`~mmvtr.models.losses.matrix.ContrastiveLoss`.

    Raises:
        ValueError: a ``form`` other than ``'pooled'``; arguments out of range.
    """

    slots = tuple(slot for slot in ContrastiveLoss.slots if slot != 'ambiguous')

    def __init__(self, *, q: float = 0.5, density: float = 0.01, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_rince(q, density)
        if self.form != 'pooled':
            raise ValueError(f'RINCE pools positives: form={self.form!r} is none of it')
        self.q = q
        self.density = density

    def of_sums(self, sums: Sums) -> Tensor:
        return rince_of_sums(sums, self.q, self.density)
