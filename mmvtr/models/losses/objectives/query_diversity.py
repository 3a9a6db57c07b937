"""GMMFormer's loss that keeps the captions of one video apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.models.layers.pooling import unit
from mmvtr.models.target import LocalBatch, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class QueryDiversity(nn.Module):
    """Query diverse loss (GMMFormer, AAAI 2024), on texts that share a video::

        mean over texts i of log(1 + sum over j != i of the same video e^{scale (cos_ij + margin)})

    Captions of one video describe different moments, so their embeddings should differ.

    Args:
        level: level of the texts.
        margin, scale, loss_weight: by dataset (TVR .15, 32, .001; ActivityNet .2, 32, .015;
            Charades-STA .15, 32, .005).
    """

    def __init__(
        self, *, margin: float, scale: float, loss_weight: float, level: str = 'clip'
    ) -> None:
        super().__init__()
        self.margin = margin
        self.scale = scale
        self.loss_weight = loss_weight
        self.level = level

    def forward(
        self, texts: Levels, videos: Levels, target: Target, batch: LocalBatch | None = None
    ) -> dict[str, Tensor]:
        """Return ``{'loss': ...}`` of the joint batch's texts and positives, 0 without texts."""
        units = unit(texts[self.level].mean)
        if not len(units):
            return {'loss': units.sum()}
        matches = target.positives.float()
        siblings = (matches @ matches.t() > 0).fill_diagonal_(False)
        logits = self.scale * (units @ units.t() + self.margin)
        logits = logits.masked_fill(~siblings, -torch.inf)
        none = logits.new_zeros(len(units), 1)  # the 1 of log(1 + ...)
        return {'loss': self.loss_weight * torch.cat([none, logits], 1).logsumexp(1).mean()}
