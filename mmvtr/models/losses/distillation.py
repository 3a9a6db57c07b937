"""Distillation of teachers' scores (TeachText)."""

from __future__ import annotations

from torch import Tensor

from mmvtr.functional.losses.distillation import smooth_l1
from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Target
from mmvtr.registry import MODELS


@MODELS.register_module()
class DistillationLoss(MatrixLoss):
    """TeachText's distillation (Croitoru et al., ICCV 2021): the mean over all T x V entries of

        SmoothL1(s_tv - teacher_tv)

    including annotated pairs.  Raw scores are compared, before any temperature: cosines with
    cosines.  The teachers' scores come from a StoredTeachers or a FrozenTeachers supervision.  The
    official code adds it with weight 1 to CE's ranking loss.

    Args:
        bend: distance above which SmoothL1 is linear; with scores within -1 and 1 and the official
            value 1 nearly every term is half a squared distance.
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Raises:
        ValueError: a bend that is not positive; in training: a target without a teacher.
    """

    slots = ('teacher',)

    def __init__(self, *, bend: float = 1.0, **kwargs) -> None:
        super().__init__(**kwargs)
        if not bend > 0:
            raise ValueError(f'bend must be positive, not {bend}')
        self.bend = bend

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        teacher = self.extra(target, 'teacher', 'StoredTeachers or FrozenTeachers')
        distances = smooth_l1(scores, teacher.to(scores.device), bend=self.bend)
        return distances.sum() / max(distances.numel(), 1)
