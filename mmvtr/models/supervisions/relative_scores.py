"""Debiasing without heads: weights of negatives from relative scores or caption implication."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor

from mmvtr.functional.values import at_least_float32, check_range
from mmvtr.models.blocks import BlockSupervision, Pairs
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.weights import Ramped, down_weight, weight_figures
from mmvtr.models.target import Filled, Scalar, Target, known_of
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, take


@MODELS.register_module()
class RelativeScoreSupervision(Ramped, BlockSupervision):
    """Supervision that lowers a negative's weight as its score nears those of annotated pairs.

        eta_tv = 1 - min(1, exp((s_tv + slack + agreement a_tv - (s_t + s_v) / 2) / softness))

    s is the model's own cosine, s_t and s_v the best scores of the text and of the video with their
    own partners: the annotated pair shows what a match scores for this text and this video, general
    or not.  A negative whose s_tv + slack + agreement a_tv reaches their mean has weight ``floor``.

    a is a second view with different errors: how well the text agrees with the video's captions
    (``Annotation.agreement``, of a dataset with
    ``records=dict(agreement=dict(type='CaptionAgreement'))``).

    The weights carry no gradient; there are no heads and no losses.  Use it with
    ``ContrastiveLoss(weighted='v2t')`` (docs/agreement.md).

    Args:
        levels: the levels whose cosines are averaged.
        slack: added to s_tv: above 0 more negatives get a low weight, below 0 fewer but surer ones.
        agreement: cosine equivalent of a standard deviation of a; 0 = the scores only.
        softness: in cosines; how fast eta rises as the score falls.
        floor: smallest eta: how far semantics may gain at the cost of paired recall.
        ramp: (start, end) as shares of the training: the weight goes linearly from 1 to eta.

    Raises:
        ValueError: a softness that is not positive, a floor outside [0, 1], a ramp that is not
            ascending within [0, 1]; in training: a target without agreement if ``agreement`` is not
            0.
    """

    fills = 'weights'  # models/target.py: check_read

    def __init__(
        self,
        *,
        levels: Sequence[str] = ('global',),
        slack: float = 0.0,
        agreement: float = 0.0,
        softness: float = 0.07,
        floor: float = 0.0,
        ramp: tuple[float, float] = (0.1, 0.3),
    ) -> None:
        super().__init__(ramp)
        check_range('(0, inf]', softness=softness)
        check_range('[0, 1]', floor=floor)
        self.similarity = CosineSimilarity(levels=levels)
        self.slack = slack
        self.agreement = agreement
        self.softness = softness
        self.floor = floor

    @torch.no_grad()
    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> dict[str, Any]:
        """Return unit vectors by level, and the best score with an own partner, -inf if none."""
        t, v = (self.similarity.prepare(side) for side in (texts, videos))
        of_pairs = sum(
            weight * (t[name].mean[pairs.rows] * v[name].mean[pairs.columns]).sum(-1)
            for name, weight in self.similarity.weights.items()
        )
        best_t, best_v = pairs.best(of_pairs)
        return dict(texts=t, videos=v, best_t=best_t, best_v=best_v)

    @torch.no_grad()
    def block(self, begun: dict[str, Any], rows: slice, target: Target) -> Filled:
        """Return the target of the texts ``rows`` with weights, and sums over its entries."""
        scores = self.similarity.compare(take(begun['texts'], rows), begun['videos'])['scores']
        references = (begun['best_t'][rows, None], begun['best_v'])
        slack = self.slack
        if self.agreement:
            slack = slack + self.agreement * known_of(target, 'agreement', self)
        eta = eta_of(scores, *references, slack=slack, softness=self.softness)
        return down_weight(target, eta, floor=self.floor, share=self.faded_in)

    def finish(self, begun: dict[str, Any], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Turn sums over all blocks into figures for the log."""
        return weight_figures(sums)


def relative_eta(
    scores: Tensor, positives: Tensor, *, softness: float, slack: Scalar = 0.0
) -> Tensor:
    """Return ``1 - min(1, exp((s_tv + slack - (s_t + s_v) / 2) / softness))``.

    Args:
        scores: float [T, V].
        positives: bool [T, V]; s_t and s_v are the best scores of a text and of a video with their
            own positives.
        softness: in the unit of the scores.
        slack: in the unit of the scores; a number, or float [T, V].

    Returns:
        float [T, V] in [0, 1]; 1 if the text or the video has no positive, as the score of its
        matches is then unknown.

    Example:
        Text 0 scores as high with the other video as the annotated pairs do. ::

            >>> scores = torch.tensor([[0.5, 0.5], [0.1, 0.5]])
            >>> relative_eta(scores, torch.eye(2).bool(), softness=0.1)
            tensor([[0.0000, 0.0000],
                    [0.9817, 0.0000]])
    """
    pairs = Pairs.of(positives)
    scores = at_least_float32(scores)
    text, video = pairs.best(scores[pairs.rows, pairs.columns])
    return eta_of(scores, text[:, None], video, softness=softness, slack=slack)


def eta_of(
    scores: Tensor, text: Tensor, video: Tensor, *, softness: float, slack: Scalar
) -> Tensor:
    """Return :func:`relative_eta` from s_t, float [T, 1], and s_v, float [V]; -inf = none."""
    reference = (text + video) / 2
    unknown = reference.isinf()
    lead = (scores + slack - reference.masked_fill(unknown, 0.0)) / softness
    return (1 - lead.exp().clamp(max=1.0)).masked_fill(unknown, 1.0)


@MODELS.register_module()
class ImplicationSupervision(Ramped):
    """Weights of negatives that decrease with the probability that the text is true of the video.

        p_tv = exp(min(0, a_tv))                        eta_tv = max(floor, 1 - p_tv)
        n_t = 1 + sum of p_tv over negatives of t       count of t in t2v = n_t ^ -specific

    a is the log of the probability that the text is true, given the video's captions
    (``Annotation.agreement``, of a dataset with
    ``records=dict(agreement=dict(type='CaptionImplication'))``).  The model's scores are not read,
    as pushing soft positives corrupts them; so nothing has to be learnt before the weights apply.

    n_t is the number of videos of the batch that are right answers to t.  As only one of them is
    annotated, the loss of a general text cannot be minimised and is noisy: it gets a lower count.

    Weights and counts carry no gradient; there are no heads and no losses.  Use it with
    ``ContrastiveLoss(weighted='v2t')`` (docs/agreement.md).

    Args:
        floor: smallest eta: how far semantics may gain at the cost of paired recall.
        specific: 0 = all texts count equally in t2v, 1 = a text with n right answers counts 1 / n.
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
        check_range('[0, 1]', floor=floor)
        check_range('[0, inf]', specific=specific)
        self.floor = floor
        self.specific = specific

    @torch.no_grad()
    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Return the joint batch's target with weights [T, V] and counts [T], and figures."""
        implied = known_of(target, 'agreement', self, maker='CaptionImplication')
        sure = implied.clamp(max=0.0).exp()
        right = 1 + sure.masked_fill(target.positives, 0.0).sum(1)
        target = target._replace(counts=right**-self.specific)
        share = self.faded_in
        target, sums = down_weight(target, 1 - sure, floor=self.floor, share=share)
        per_text = right.sum() / sums['texts'].clamp_min(1)
        return target, {**weight_figures(sums), 'right_per_text': per_text}
