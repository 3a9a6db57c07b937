"""Losses that follow teachers' scores (TeachText), softmaxes, frames (DL-DKD) or soft labels."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import torch
from torch import Tensor, nn

from mmvtr.functional.losses.distillation import (
    DivergenceSums,
    distillation_sums,
    frame_divergence,
    loss_of_divergences,
    smooth_l1,
    soft_label_contrastive,
)
from mmvtr.functional.losses.schedules import check_fall, epoch_at, falling
from mmvtr.functional.values import at_least_float32, check_one_of, check_range, recomputed
from mmvtr.models.blocks import Pairs
from mmvtr.models.layers.pooling import unit
from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import LocalBatch, Matrices, Scalar, Target, Targets
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, pad_tokens


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
        check_range('(0, inf]', bend=bend)
        self.bend = bend

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        teacher = self.extra(target, 'teacher', 'StoredTeachers or FrozenTeachers')
        distances = smooth_l1(scores, teacher.to(scores.device), bend=self.bend)
        return distances.sum() / max(distances.numel(), 1)


#: Sums of each direction, by matrix.
Divergences = dict[str, dict[str, DivergenceSums]]


@MODELS.register_module()
class KLDistillationLoss(MatrixLoss):
    """Divergence of the softmaxes over rows and columns from those of teachers (Hinton et al.).

        T^2 ( mean_t KL(p_t. || q_t.) + mean_v KL(p_.v || q_.v) ) / 2
        p = softmax(teacher / T),   q = softmax(scores / temperature of the model / T)

    see :func:`.distillation_kl`: MobileCLIP's distillation loss (CVPR 2024, Eq. 2), softened, and
    at T = 1 open_clip's ``DistillClipLoss``.  It is added to a contrastive loss.  Teachers give
    logits: a StoredTeachers or FrozenTeachers supervision divides their scores by ``temperatures``,
    or logits are stored (``tools/export_teacher.py --logits``).

    Args:
        temperature: T, which softens both.
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Raises:
        ValueError: a temperature that is not positive; in training: a target without a teacher.
    """

    slots = ('teacher',)
    #: It never needs the whole matrix (models/blocks.py).
    whole = ''

    def __init__(self, *, temperature: float = 4.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_range('(0, inf)', temperature=temperature)
        self.temperature = temperature

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        return loss_of_divergences(self.sums(scores, target, temperature), self.temperature)

    def sums(
        self, scores: Tensor, target: Target, temperature: Scalar
    ) -> dict[str, DivergenceSums]:
        """Return the terms of some texts and all videos, by direction."""
        teacher = self.extra(target, 'teacher', 'StoredTeachers or FrozenTeachers')
        logits = at_least_float32(scores) / temperature
        return distillation_sums(logits, teacher.to(scores.device), temperature=self.temperature)

    def begin(
        self, matrices: Callable[[], Iterator[Matrices]], pairs: Pairs, temperature: Scalar
    ) -> None:
        """Blocks share nothing."""

    def block(
        self, begun: None, rows: slice, matrices: Matrices, target: Targets, temperature: Scalar
    ) -> Divergences:
        """Return the terms of the texts ``rows``, by matrix and direction."""
        return {
            name: self.sums(matrices[name], self.target(target, name), temperature)
            for name in self.existing(matrices)
        }

    def finish(self, sums: Divergences) -> Tensor:
        """Turn the terms of all blocks of all processes into the 0-dim loss."""
        values = [loss_of_divergences(ways, self.temperature) for ways in sums.values()]
        return self.loss_weight * torch.stack(values).mean()


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
        check_one_of(FOLLOWS, follows=follows)
        check_one_of(ROWS, rows=rows)
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

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        scores = at_least_float32(scores) / temperature
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


@MODELS.register_module()
class FrameDistillation(nn.Module):
    """KL of the teacher's distribution over frames from a branch's (DL-DKD; Dong et al., 2023).

        sum over texts of KL( softmax(cos_teacher / temperature) || softmax(cos / temperature) )

    over the frames of the text's own video; averaged over its videos if it has several.  The
    teacher's vectors come from a :class:`~mmvtr.models.StoredFrameTeacher`.  The official code sums
    over the texts of a batch, so that the weight grows with its size.  The weight
    falls from epoch to epoch, see :func:`mmvtr.functional.losses.schedules.falling`.

    Args:
        level: the student branch.
        teacher: name of the teacher.
        temperature: positive.
        reduction: ``'sum'`` over texts (official), or ``'mean'``.
        loss_weight: initial weight.
        fall, rate: form and rate of the weight's decay.
        epochs: number of epochs into which a training of any length is divided.
        entries: maximal number of tensor elements at a time, at least those of one pair.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: an argument outside its range; in training: the model has no such teacher.
    """

    def __init__(
        self,
        *,
        level: str = 'inherit',
        teacher: str = 'clip',
        temperature: float = 0.2,
        reduction: str = 'sum',
        loss_weight: float = 0.1,
        fall: str = 'exp',
        rate: float = 0.95,
        epochs: int = 120,
        entries: int = 2**23,
    ) -> None:
        super().__init__()
        check_range('(0, inf]', temperature=temperature)
        check_one_of(('sum', 'mean'), reduction=reduction)
        check_fall(fall, rate)
        self.level = level
        self.teacher = f'vectors.{teacher}'
        self.temperature = temperature
        self.reduction = reduction
        self.loss_weight = loss_weight
        self.fall, self.rate, self.epochs = fall, rate, epochs
        self.entries = entries
        self.progress = 1.0

    def forward(
        self, texts: Levels, videos: Levels, target: Target, batch: LocalBatch | None = None
    ) -> dict[str, Tensor]:
        """Return ``{'loss': ..., 'weight': ...}`` of the joint batch."""
        if self.teacher not in videos or videos[self.teacher].tokens is None:
            raise ValueError(
                f'{type(self).__name__} reads the frame level {self.teacher!r}, which the model '
                "does not have: set model.supervision=dict(type='StoredFrameTeacher', ...)"
            )
        row, column = target.positives.nonzero(as_tuple=True)
        weight = falling(
            epoch_at(self.progress, self.epochs),
            fall=self.fall,
            start=self.loss_weight,
            rate=self.rate,
        )
        student = self._both(texts, videos, self.level)
        teacher = tuple(x.detach() for x in self._both(texts, videos, self.teacher))
        mask = videos[self.level].mask
        longest = max(mask.shape[1], teacher[1].shape[1])  # either may have more padding
        student, teacher = ((t, pad_tokens(v, longest)) for t, v in (student, teacher))
        mask = pad_tokens(mask, longest)
        total = student[0].sum() * 0.0 + student[1].sum() * 0.0  # if there is no pair
        if len(row):
            share = 1 / row.bincount(minlength=len(student[0]))[row].to(total.dtype)
            pairs = max(1, self.entries // max(longest * student[1].shape[2], 1))

            def divergence(r: Tensor, c: Tensor, share: Tensor) -> Tensor:
                with torch.autocast(share.device.type, enabled=False):
                    ours, theirs = (
                        torch.einsum('pd,pkd->pk', t[r], v[c]) for t, v in (student, teacher)
                    )
                options = dict(temperature=self.temperature)
                return (share * frame_divergence(ours, theirs, mask[c], **options)).sum()

            for part in zip(*(x.split(pairs) for x in (row, column, share))):
                # Checkpointed: the frames of a pair are copied again in the backward pass.
                total = total + recomputed(divergence, *part)
            if self.reduction == 'mean':
                total = total / len(row.unique())
        return {'loss': weight * total, 'weight': total.new_tensor(weight)}

    @staticmethod
    def _both(texts: Levels, videos: Levels, name: str) -> tuple[Tensor, Tensor]:
        """Return unit texts [T, D] and unit frames [V, F, D], whose inner products are cosines."""
        return unit(texts[name].mean), unit(videos[name].tokens)
