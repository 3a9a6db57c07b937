"""RAN: what is relevant is no negative, though nobody has annotated it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.models.target import Target, check_threshold, from_classes
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class RelevanceSupervision(nn.Module):
    """Relevance-aware negatives (RAN; Falcon et al., ICIAP 2022): weight 0 for relevant entries.

    An entry that is not annotated and whose relevance (mean over verbs and nouns of the classes'
    intersection over union) reaches the threshold leaves every loss.  RAN itself is this with
    HGR's triplet on the hardest negative, RANP this and a RelevantRankingLoss.

    Logs ``relevant_per_text``, how many videos of the joint batch a text loses as negatives.

    Args:
        negatives_below: the threshold.  RAN: .75 in the official configs, and in the frame-length
            paper (Sec. 4), whose "negative and positive sampling thresholds .75 and .20" we read
            as RAN .75 and RANP .20, since a run of the official code has only one.

    Raises:
        ValueError: a threshold outside (0, 1]; in training: a target without relevance.
    """

    def __init__(self, *, negatives_below: float = 0.75) -> None:
        super().__init__()
        check_threshold('negatives_below', negatives_below)
        self.negatives_below = negatives_below

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Target of the joint batch -> the same with weights, and the figure for the log."""
        relevance = from_classes(target, 'relevance', self)
        relevant = (relevance >= self.negatives_below) & ~target.positives
        weights = torch.ones_like(relevance) if target.weights is None else target.weights
        logs = {'relevant_per_text': relevant.sum() / max(len(relevant), 1)}
        return target._replace(weights=weights.masked_fill(relevant, 0.0)), logs
