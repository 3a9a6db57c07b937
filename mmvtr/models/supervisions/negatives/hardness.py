"""Higher weights for negatives that score high (LLaVE, EmbeddingGemma, HN-NCE)."""

from __future__ import annotations

from typing import Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.losses.negative_weights import hardness_weights
from mmvtr.models.blocks import BlockSupervision
from mmvtr.models.pairs import Pairs
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, take


@MODELS.register_module()
class HardnessSupervision(BlockSupervision):
    """Weight e^(alpha s) of a negative, s the model's own cosine without its gradient.

    See :func:`.hardness_weights`.  The hardest negatives are where unannotated right answers are:
    beside a guide or a self-mask, ``CombinedSupervision(spared_by='product')`` weighs what these
    leave (as RzenEmbed does).  Logs ``hardness``, the mean weight of a negative.

    Args:
        alpha: per unit of cosine; .5 in LLaVE's code, 9 in its paper, says sentence-transformers.
        over: None, or whose negatives have a mean weight of 1 (HN-NCE): ``'t2v'`` of texts,
            ``'v2t'`` of videos, ``'both'`` of either in its own direction.
        levels: the levels whose cosines are averaged.

    Raises:
        ValueError: an ``alpha`` that is not finite, another ``over``.
    """

    fills = 'weights'  # models/target.py: check_read
    #: Its weights are no shares of 1: a smallest or a largest weight would lose what they say.
    exceeds_one = True

    def __init__(
        self,
        *,
        alpha: float = 5.0,
        over: Optional[str] = None,
        levels: Sequence[str] = ('global',),
    ) -> None:
        super().__init__()
        if not abs(alpha) < float('inf'):
            raise ValueError(f'alpha must be finite, not {alpha}')
        if over not in (None, 't2v', 'v2t', 'both'):
            raise ValueError(f"over must be None, 't2v', 'v2t' or 'both', not {over!r}")
        self.alpha = alpha
        self.over = over
        self.similarity = CosineSimilarity(levels=levels)

    @property
    def whole(self) -> str:
        texts = self.over in ('v2t', 'both')
        return f'over={self.over!r} is over all texts of the batch' if texts else ''

    @torch.no_grad()
    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> tuple[Levels, Levels]:
        """Unit vectors by level, of both sides."""
        return self.similarity.prepare(texts), self.similarity.prepare(videos)

    @torch.no_grad()
    def block(
        self, begun: tuple[Levels, Levels], rows: slice, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """The target of the texts ``rows`` -> the same with weights, and sums."""
        texts, videos = begun
        scores = self.similarity.compare(take(texts, rows), videos)['scores']
        options = dict(alpha=self.alpha, over='t2v' if self.over == 'both' else self.over)
        weights = hardness_weights(scores, target.positives, **options)
        sums = dict(
            hardness=weights.masked_fill(target.positives, 0.0).sum(),
            negatives=(~target.positives).sum().to(weights.dtype),
        )
        if self.over == 'both':
            options.update(over='v2t')
            weights = dict(t2v=weights, v2t=hardness_weights(scores, target.positives, **options))
        return target.weigh(weights), sums

    def finish(self, begun: tuple[Levels, Levels], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums over all blocks -> the figure for the log."""
        return {'hardness': sums['hardness'] / sums['negatives'].clamp_min(1)}
