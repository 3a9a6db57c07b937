"""Negatives whose text says what many others say are spared where they score like a match."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mmvtr.models.losses import Target
from mmvtr.models.score_supervision import RelativeScoreSupervision
from mmvtr.models.text_memory import TextMemory
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class CommonTextSupervision(RelativeScoreSupervision):
    """As :class:`RelativeScoreSupervision`, for common texts only; all others weigh 1.

    A caption that nobody else gives is specific: what it wrongly ranks high are its hard negatives,
    and to spare these costs both measures.  One that many give is general, and its high scores are
    soft positives more often than not.  How common a text is, is the share of the last training
    texts whose embedding is alike; no label is needed.  Above the upper bound the encoder does not
    tell texts apart (yet), so that their scores say nothing.

    Logs ``common_texts``, the share of such texts in the batch.

    Args:
        dim: D of the texts.
        memory: texts that are remembered.
        alike: cosine above which two texts say the same.
        common: least and largest share of the memory that is alike, of a common text.
        **kwargs: see :class:`RelativeScoreSupervision`; the first of its levels is remembered.

    Raises:
        ValueError: an ``alike`` outside (-1, 1), bounds that do not ascend within [0, 1].
    """

    def __init__(
        self,
        *,
        dim: int,
        memory: int = 2048,
        alike: float = 0.9,
        common: tuple[float, float] = (0.005, 0.05),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not -1 < alike < 1:
            raise ValueError(f'alike is a cosine, in (-1, 1), not {alike}')
        low, high = common
        if not 0 <= low < high <= 1:
            raise ValueError(f'common must be (low, high) with 0 <= low < high <= 1, not {common}')
        self.memory = TextMemory(size=memory, dim=dim)
        self.alike = alike
        self.common = (low, high)

    def eta(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Tensor, dict[str, Tensor]]:
        eta, logs = super().eta(texts, videos, target)
        vectors = texts[self.similarity.levels[0]].mean
        if self.training:
            self.memory.push(vectors)
        share = self.memory.share_alike(vectors, alike=self.alike)
        low, high = self.common
        common = (share >= low) & (share <= high)
        logs['common_texts'] = common.float().sum() / max(len(common), 1)
        return torch.where(common[:, None], eta, torch.ones_like(eta)), logs
