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
from mmvtr.functional.sinkhorn import sinkhorn
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


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


class LocalBatch(NamedTuple):
    """This process' own items, for objectives that read more than the gathered vectors.

    Attributes:
        inputs: what the data preprocessor made: ``text`` int64 [T, L], ``text_mask`` ...
        texts, videos: levels of the T texts and V videos, with tokens.
        positives: bool [T, V] among them.
    """

    inputs: dict[str, Tensor]
    texts: Levels
    videos: Levels
    positives: Tensor


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
class NormalizedContrastiveLoss(ContrastiveLoss):
    """InfoNCE on scores whose retrieval probabilities are normalised (NCL Eq. 4 on Eq. 12).

    The biases a, b of Sinkhorn-Knopp on the joint batch (Fig. 4) are added to the scores.  In the
    t2v term a cancels, in the v2t term b.  Weights of a supervision apply on top.

    Args:
        iterations: of Sinkhorn-Knopp (paper: 4); 0 normalises columns only.
        marginals: ``'uniform'`` (paper), or ``'positives'``: every text hands its mass to its
            videos, so that a video with more texts in the batch weighs more (Sec. 3.3).
        differentiable: let the gradient pass through the biases (the paper does not say; on
            planted data it made no difference).
        form, direction, reads, loss_weight: see :class:`ContrastiveLoss`.
    """

    def __init__(
        self,
        *,
        iterations: int = 4,
        marginals: str = 'uniform',
        differentiable: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        if marginals not in ('uniform', 'positives'):
            raise ValueError(f"marginals must be 'uniform' or 'positives', not {marginals!r}")
        self.iterations = iterations
        self.marginals = marginals
        self.differentiable = differentiable

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        # All videos of the joint batch may be broken; and of a NaN the caller can say better than
        # Sinkhorn-Knopp which batch has brought it.
        if scores.numel() and scores.isfinite().all():
            scores = self.normalise(scores, target.positives, temperature)
        return super().compute(scores, target, temperature)

    def normalise(self, scores: Tensor, positives: Tensor, temperature: Tensor | float) -> Tensor:
        """sim* = a + b + scores (Eq. 12), float [T, V]."""
        with torch.set_grad_enabled(self.differentiable and torch.is_grad_enabled()):
            a, b = sinkhorn(
                scores,
                temperature=temperature,
                iterations=self.iterations,
                column_marginals=self._video_marginals(positives),
            )
        return scores + a[:, None] + b

    def _video_marginals(self, positives: Tensor) -> Optional[Tensor]:
        if self.marginals == 'uniform':
            return None
        shares = positives.float() / positives.sum(1, keepdim=True).clamp(min=1)
        return shares.sum(0) / shares.sum()


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
