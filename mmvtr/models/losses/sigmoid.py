"""The pairwise sigmoid loss: binary classification of each pair of a text and a video."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.functional.losses.pairwise import binary_cross_entropy, check_reduction, pseudo_positives
from mmvtr.functional.values import at_least_float32
from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Target
from mmvtr.registry import MODELS


@MODELS.register_module()
class SigmoidLoss(MatrixLoss):
    """Binary cross-entropy of ``scores / temperature + bias`` (SigLIP, ProLIP, PCME++).

    - SigLIP: cosines, initial temperature .1 and bias -10, both learnt.
    - ProLIP: SigLIP's settings with ``GaussianSimilarity(form='product')``.
    - PCME++: ``GaussianSimilarity(form='distance')``, ``reduction='mean'``, ``pseudo_weight=.1``,
      ``loss_weight=2`` (both directions, which are equal), initial temperature .2 and bias 5.  Its
      scale and SigLIP's are parameterised differently: here it is the exponential of a parameter.

    Labels are the annotation's positives, or the mixed ones of ``MixupSupervision``.  Weights of a
    supervision apply to the terms of negatives.

    Args:
        bias: initial bias.
        learnable: train the bias.
        reduction: see :func:`.binary_cross_entropy`.
        pseudo_weight: weight of the mean of two further losses, whose labels are the
            :func:`.pseudo_positives` of each text and those of each video.
        reads, loss_weight: see :class:`MatrixLoss`.

    Raises:
        ValueError: unknown reduction, or a negative ``pseudo_weight``.
    """

    slots = ('weights', 'labels')

    def __init__(
        self,
        *,
        bias: float = -10.0,
        learnable: bool = True,
        reduction: str = 'items',
        pseudo_weight: float = 0.0,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        check_reduction(reduction)
        if pseudo_weight < 0:
            raise ValueError(f'pseudo_weight must be at least 0, not {pseudo_weight}')
        self.bias = nn.Parameter(torch.tensor(float(bias)), requires_grad=learnable)
        self.reduction = reduction
        self.pseudo_weight = pseudo_weight

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        labels = target.extras.get('labels', target.positives)
        logits = at_least_float32(scores) / temperature + self.bias
        loss = self._of(logits, labels, target)
        if not self.pseudo_weight:
            return loss
        known = logits.detach()
        sides = pseudo_positives(known, labels), pseudo_positives(known.t(), labels.t()).t()
        pseudo = sum(self._of(logits, side, target) for side in sides) / 2
        return loss + self.pseudo_weight * pseudo

    def _of(self, logits: Tensor, labels: Tensor, target: Target) -> Tensor:
        return binary_cross_entropy(
            logits, labels, weights=target.weights, reduction=self.reduction
        )
