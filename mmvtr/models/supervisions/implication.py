"""Lower weights for negatives implied by a clip's captions: debiasing by words only."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.models.supervisions.ramp import Ramped, check_floor, spare, spared
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class ImplicationSupervision(Ramped):
    """A negative is pushed the less, the more surely the captions of its video say that it is true.

        p_tv = exp(min(0, a_tv))                        eta_tv = max(floor, 1 - p_tv)
        n_t = 1 + sum of p_tv over negatives of t       count of t in t2v = n_t ^ -specific

    a is the log of how surely the text holds (``Annotation.agreement``, of a dataset with
    ``records=dict(agreement=dict(type='CaptionImplication'))``).  The model's scores are not asked:
    they are what pushing soft positives spoils, and nothing has to be learnt before weights count.

    n_t is how many videos of the batch are right answers to t.  As long as one of them is called
    right, a general text asks what nobody can answer, and its loss is noise: it counts less.

    Weights and counts carry no gradient; there are no heads and no losses.  It goes with
    ``ContrastiveLoss(weighted='v2t')`` (docs/agreement.md).

    Args:
        floor: smallest eta: how far semantics may gain at the cost of paired recall.
        specific: 0 = all texts count alike in t2v, 1 = a text of n right answers one n-th.
        ramp: (start, end) as shares of the training: the weight goes linearly from 1 to eta.

    Raises:
        ValueError: a floor outside [0, 1], ``specific`` below 0, a ramp that is not ascending
            within [0, 1]; in training: the target has no agreement.
    """

    fills = 'weights'  # models/target.py: check_read

    def __init__(
        self, *, floor: float = 0.07, specific: float = 0.5, ramp: tuple[float, float] = (0.0, 0.1)
    ) -> None:
        super().__init__(ramp)
        check_floor(floor)
        if not specific >= 0:
            raise ValueError(f'specific must be at least 0, not {specific}')
        self.floor = floor
        self.specific = specific

    @torch.no_grad()
    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Target of the joint batch -> the same with weights [T, V] and counts [T], and figures."""
        if target.known.agreement is None:
            raise ValueError(
                f'{type(self).__name__} needs a training dataset with '
                "records=dict(agreement=dict(type='CaptionImplication'))"
            )
        sure = target.known.agreement.clamp(max=0.0).exp()
        right = 1 + sure.masked_fill(target.positives, 0.0).sum(1)
        target = target._replace(counts=right**-self.specific)
        share = self.faded_in
        target, sums = spare(target, 1 - sure, floor=self.floor, share=share)
        per_text = right.sum() / sums['texts'].clamp_min(1)
        return target, {**spared(sums), 'right_per_text': per_text}
