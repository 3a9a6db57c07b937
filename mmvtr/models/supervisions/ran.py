"""RAN: what is relevant is no negative, though nobody has annotated it."""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor

from mmvtr.models.blocks import BlockSupervision
from mmvtr.models.target import Target, check_threshold, from_classes
from mmvtr.registry import MODELS


@MODELS.register_module()
class RelevanceSupervision(BlockSupervision):
    """Relevance-aware negatives (RAN; Falcon et al., ICIAP 2022): weight 0 for relevant entries.

    An entry that is not annotated and whose relevance (mean over verbs and nouns of the classes'
    intersection over union) reaches the threshold leaves every loss, and is ``relevant`` in the
    target.  RAN itself is this with HGR's triplet on the hardest negative, RANP this and a
    RelevantRankingLoss.

    Logs ``relevant_per_text``, how many videos of the joint batch a text loses as negatives.

    Args:
        negatives_below: the threshold.  RAN: .75 in the official configs, and in the frame-length
            paper (Sec. 4), whose "negative and positive sampling thresholds .75 and .20" we read
            as RAN .75 and RANP .20, since a run of the official code has only one.  None: see
            ``quantile``.
        quantile: instead of a threshold, ours: relevant is what exceeds this quantile of the
            relevance of the joint batch's unannotated entries, so at most 1 - ``quantile`` of them.
            For captions with few verbs and nouns, of which a fixed threshold takes too many.

    Raises:
        ValueError: not one of ``negatives_below`` in (0, 1] and ``quantile`` in [0, 1); in
            training: a target without relevance.
    """

    fills = 'weights'  # models/target.py: check_read

    def __init__(
        self, *, negatives_below: Optional[float] = 0.75, quantile: Optional[float] = None
    ) -> None:
        super().__init__()
        if (negatives_below is None) == (quantile is None):
            raise ValueError(
                f'one of negatives_below and quantile (the other None), got {negatives_below} and '
                f'{quantile}'
            )
        if quantile is None:
            check_threshold('negatives_below', negatives_below)
        elif not 0 <= quantile < 1:
            raise ValueError(f'quantile must lie in [0, 1), not {quantile}')
        self.negatives_below = negatives_below
        self.quantile = quantile

    @property
    def whole(self) -> str:
        return '' if self.quantile is None else 'a quantile is one of all entries of the batch'

    def block(self, begun: None, rows: slice, target: Target) -> tuple[Target, dict[str, Tensor]]:
        """The target of some texts -> the same with weights, and sums."""
        relevance = from_classes(target, 'relevance', self)
        relevant = self._enough(relevance, ~target.positives) & ~target.positives
        weights = torch.ones_like(relevance) if target.weights is None else target.weights
        sums = dict(relevant=relevant.sum().float(), texts=relevance.new_tensor(len(relevant)))
        weights = weights.masked_fill(relevant, 0.0)
        return target._replace(weights=weights).put(relevant=relevant), sums

    def finish(self, begun: None, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """The figure for the log."""
        return {'relevant_per_text': sums['relevant'] / sums['texts'].clamp_min(1)}

    def _enough(self, relevance: Tensor, unannotated: Tensor) -> Tensor:
        if self.quantile is None:
            return relevance >= self.negatives_below
        values = relevance[unannotated]
        if not len(values):
            return torch.zeros_like(unannotated)
        # The k-th smallest, k = ceil(quantile n): torch.quantile takes no 4,096 x 4,096 entries.
        k = max(1, math.ceil(self.quantile * len(values) - 1e-9))
        return relevance > values.kthvalue(k).values
