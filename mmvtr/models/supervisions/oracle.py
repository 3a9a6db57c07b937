"""A perfect detector of soft positives, as the upper bound of a comparison."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class OracleSupervision(nn.Module):
    """Oracle supervision, which knows the true pairs that are not annotated (an upper bound).

    It needs ``oracle=True`` of the training set, a :class:`~mmvtr.datasets.PlantedDataset`.  Logs
    ``soft_share``, the share of true pairs among the unannotated ones of the joint batch.

    Args:
        treat: what a soft positive (true, not annotated) is. ``'ignore'``: a negative of weight
            ``floor``; ``'positive'``: a match like the annotated ones.
        floor: for ``'ignore'``; 0 takes soft positives out of the loss.

    Raises:
        ValueError: an unknown ``treat``, a floor outside [0, 1], or one for ``'positive'``; in
            training: a target without truth.
    """

    def __init__(self, *, treat: str = 'ignore', floor: float = 0.0) -> None:
        super().__init__()
        if treat not in ('ignore', 'positive'):
            raise ValueError(f"treat must be 'ignore' or 'positive', not {treat!r}")
        if not 0 <= floor <= 1:
            raise ValueError(f'floor must lie in [0, 1], not {floor}')
        if floor and treat == 'positive':
            raise ValueError(f"floor = {floor} weighs negatives, but treat is 'positive'")
        self.treat = treat
        self.floor = floor

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Target of the joint batch -> the same with weights or further positives, and a figure."""
        if target.known.truth is None:
            raise ValueError(
                'OracleSupervision reads target.known.truth, which the training set does not tell: '
                'set train_dataloader.dataset.oracle=True (PlantedDataset)'
            )
        soft = target.known.truth & ~target.positives
        figures = {'soft_share': soft.sum() / (~target.positives).sum().clamp_min(1)}
        if self.treat == 'positive':
            return target._replace(positives=target.positives | soft), figures
        weights = target.weights
        if weights is None:
            weights = torch.ones(soft.shape, device=soft.device)
        return target._replace(weights=weights.masked_fill(soft, self.floor)), figures
