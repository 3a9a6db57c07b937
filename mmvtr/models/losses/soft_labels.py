"""The contrastive loss of DL-DKD++, whose labels soften during training."""

from __future__ import annotations

from torch import Tensor

from mmvtr.functional.losses.distillation import soft_label_contrastive
from mmvtr.functional.losses.schedules import check_fall, epoch_at, falling
from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Target
from mmvtr.registry import MODELS

#: Possible sources of the soft labels.
FOLLOWS = ('teacher', 'self')
#: Possible choices of the anchors with hard labels.
ROWS = ('drawn', 'first')


@MODELS.register_module()
class SoftLabelContrastiveLoss(MatrixLoss):
    """Contrastive loss with labels 0/1 for a share alpha of the anchors, soft ones for the others.

    Soft labels are beta I + (1 - beta) softmax(R), see :func:`.soft_label_contrastive`, which adds
    both directions.  In DL-DKD++, R is the teacher's matrix for the inheriting branch, and the
    branch's own scores, not detached, for the exploring one.  alpha and beta fall from epoch to
    epoch, see :func:`mmvtr.functional.losses.schedules.falling`.

    Args:
        follows: ``'teacher'``: R is the target's (StoredFrameTeacher), or ``'self'``.
        alpha, beta: initial values.
        alpha_floor, beta_floor: smallest values.
        fall, rate: form and rate of the decay of both.
        epochs: number of epochs into which a training of any length is divided.
        rows: which anchors are hard: ``'drawn'``, from the target's draws (ours), or ``'first'``,
            the first ones of the batch (official).
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: an unknown choice, or numbers outside [0, 1]; in training: a target without the
            teacher or the draws that it reads.
    """

    slots = ('teacher', 'draws')

    def __init__(
        self,
        *,
        follows: str = 'teacher',
        alpha: float = 0.8,
        beta: float = 0.8,
        alpha_floor: float = 0.0,
        beta_floor: float = 0.5,
        fall: str = 'sigmoid',
        rate: float = 800.0,
        epochs: int = 120,
        rows: str = 'drawn',
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        for name, value, known in (('follows', follows, FOLLOWS), ('rows', rows, ROWS)):
            if value not in known:
                raise ValueError(f'{name} must be one of {known}, not {value!r}')
        bounds = dict(alpha=(alpha_floor, alpha), beta=(beta_floor, beta))
        for name, (floor, start) in bounds.items():
            if not 0 <= floor <= start <= 1:
                raise ValueError(
                    f'{name} = {start} and its floor {floor} must be 0 <= floor <= {name} <= 1'
                )
        check_fall(fall, rate)
        self.follows = follows
        self.rows = rows
        self.bounds = bounds
        self.fall, self.rate, self.epochs = fall, rate, epochs
        self.progress = 1.0

    def shares(self) -> tuple[float, float]:
        """Return the current alpha and beta."""
        epoch = epoch_at(self.progress, self.epochs)
        return tuple(
            falling(epoch, fall=self.fall, start=start, rate=self.rate, floor=floor)
            for floor, start in self.bounds.values()
        )

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        scores = scores / temperature
        teacher, draws, maker = scores, None, 'StoredFrameTeacher'
        if self.follows == 'teacher':
            teacher = self.extra(target, 'teacher', maker).to(scores.device)
        if self.rows == 'drawn':
            draws = self.extra(target, 'draws', maker)
        alpha, beta = self.shares()
        return soft_label_contrastive(
            scores,
            target.positives,
            teacher,
            alpha=alpha,
            beta=beta,
            draws=draws,
        )
