"""Registered losses: thin shells over :mod:`mmvtr.functional`.

A loss sees matrices and a :class:`Target`, never the model.  It names the matrices it reads; of
several, the mean of the losses is taken (CLIP2Video: half global, half aligned).
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.functional.contrastive import contrastive
from mmvtr.functional.ranking import ranking
from mmvtr.registry import MODELS


class Target(NamedTuple):
    """What supervision says of a T x V matrix.

    Attributes:
        positives: bool [T, V], which entries count as a match.
        weights: float [T, V] or None, how hard each negative is pushed.
        margins: float [T, V] or None, margin of each pair of a ranking loss.
    """

    positives: Tensor
    weights: Optional[Tensor] = None
    margins: Optional[Tensor] = None


class MatrixLoss(nn.Module):
    """Averages ``compute`` over the matrices it reads, and weighs the result.

    Args:
        reads: names of the score matrices, e.g. ``('global', 'aligned')``.
        loss_weight: factor of the loss.
    """

    def __init__(self, *, reads: Sequence[str] = ('scores',), loss_weight: float = 1.0) -> None:
        super().__init__()
        self.reads = tuple(reads)
        self.loss_weight = loss_weight

    def forward(
        self, matrices: dict[str, Tensor], target: Target, temperature: Tensor | float
    ) -> Tensor:
        """``{name: [T, V]}``, their target, and the model's temperature -> 0-dim loss."""
        unknown = [name for name in self.reads if name not in matrices]
        if unknown:
            raise KeyError(
                f'{type(self).__name__} reads {unknown}, the model offers {sorted(matrices)}'
            )
        values = [self.compute(matrices[name], target, temperature) for name in self.reads]
        return self.loss_weight * torch.stack(values).mean()

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        raise NotImplementedError(f'{type(self).__name__} must define compute()')


@MODELS.register_module()
class ContrastiveLoss(MatrixLoss):
    """InfoNCE (DVTR Eq. 2); with weights from a supervision the debiased loss (DVTR Eq. 13).

    Args:
        form, direction: see :func:`mmvtr.functional.contrastive.contrastive`.
    """

    def __init__(self, *, form: str = 'pooled', direction: str = 'both', **kwargs) -> None:
        super().__init__(**kwargs)
        self.form = form
        self.direction = direction

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        return contrastive(
            scores,
            target.positives,
            temperature=temperature,
            weights=target.weights,
            form=self.form,
            direction=self.direction,
        )


@MODELS.register_module()
class RankingLoss(MatrixLoss):
    """Triplet loss (DVTR Eq. 1); with weights from a supervision the debiased one (DVTR Eq. 12).

    Args:
        margin: used where the supervision gives none.
        weight_on, negatives, positive, direction: see :func:`mmvtr.functional.ranking.ranking`.
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        weight_on: str = 'hinge',
        negatives: str = 'all',
        positive: str = 'own',
        direction: str = 'both',
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.margin = margin
        self.weight_on = weight_on
        self.negatives = negatives
        self.positive = positive
        self.direction = direction
        # Random negatives are drawn from the step number: the same on all processes and after
        # a resume.
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        generator = torch.Generator().manual_seed(int(self.step))
        self.step += self.training
        return ranking(
            scores,
            target.positives,
            margin=self.margin if target.margins is None else target.margins,
            weights=target.weights,
            weight_on=self.weight_on,
            negatives=self.negatives,
            positive=self.positive,
            direction=self.direction,
            generator=generator,
        )
