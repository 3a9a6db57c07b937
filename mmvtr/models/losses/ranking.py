"""The triplet loss."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.losses.ranking import margin_ranking
from mmvtr.functional.losses.ranking_terms import Choice, check_choice
from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Target
from mmvtr.registry import MODELS


@MODELS.register_module()
class RankingLoss(MatrixLoss):
    """Triplet loss (DVTR Eq. 1); with weights from a supervision the debiased one (DVTR Eq. 12).

    If the target has ambiguous entries it is ARL's dual triplet (Eq. 11 + 12).  The paper adds the
    two directions, while this is their mean (``loss_weight=2``), divides by all pairs
    (``average='anchors'``; without ambiguous pairs the term is 0), and does not say how q_a, V_a,
    q_n and V_n are drawn.  Its predecessors (MS-SL to GMMFormer) have two losses, one per
    direction: ``'random'`` negatives, late in training from a ``pool`` of 20 videos and of 1
    caption, and against the mean of a video's captions (``positive='mean'``).

    Args:
        margin: used if the supervision gives none (predecessors: .1 on TVR, else .2).
        ambiguous_margin: m_a of Eq. 11, between 0 and ``margin``; None = half of ``margin`` (the
            paper only says m_a < m).
        pool: ``'random'`` draws among this many best-scored negatives.
        pool_from: share of the training after which ``pool`` applies; before, negatives are drawn
            from all (GMMFormer: after 30 of 100 epochs on TVR, 20 on ActivityNet, never on
            Charades-STA; MS-SL: 20 on all).
        weight_on, negatives, positive, average, direction: see
            :func:`mmvtr.functional.losses.ranking.margin_ranking`.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: an unknown choice, an empty pool or one without ``'random'``, an
            ``ambiguous_margin`` outside [0, margin].
    """

    slots = ('margins', 'weights', 'ambiguous')

    def __init__(
        self,
        *,
        margin: float = 0.2,
        ambiguous_margin: Optional[float] = None,
        weight_on: str = 'hinge',
        negatives: str = 'all',
        pool: Optional[int] = None,
        pool_from: float = 0.0,
        positive: str = 'own',
        average: str = 'terms',
        direction: str = 'both',
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        if ambiguous_margin is not None and not 0 <= ambiguous_margin <= margin:
            raise ValueError(
                f'ambiguous_margin must lie between 0 and margin = {margin}, not {ambiguous_margin}'
            )
        self.margin = margin
        self.ambiguous_margin = margin / 2 if ambiguous_margin is None else ambiguous_margin
        self.pool_from = pool_from
        self.direction = direction
        self.weight_on = weight_on
        self.negatives = negatives
        self.pool = pool
        self.positive = positive
        self.average = average
        self.progress = 1.0
        # Random negatives are drawn from the step number: the same on all processes and after
        # a resume.
        self.register_buffer('step', torch.zeros((), dtype=torch.long))
        check_choice(Choice(weight_on, negatives, pool, positive, average), direction)

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        random = self.negatives == 'random'
        value = margin_ranking(
            scores,
            target.positives,
            margin=self.margin if target.margins is None else target.margins,
            weights=target.weights,
            ambiguous=target.ambiguous,
            ambiguous_margin=self.ambiguous_margin,
            weight_on=self.weight_on,
            negatives=self.negatives,
            pool=self.pool if random and self.progress >= self.pool_from else None,
            positive=self.positive,
            average=self.average,
            direction=self.direction,
            generator=torch.Generator().manual_seed(int(self.step)) if random else None,
        )
        self.step += self.training
        return value
