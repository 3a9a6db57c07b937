"""Weights of negatives, and two supervisions that read only the annotation."""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor, nn

from mmvtr.functional.values import check_one_of, check_range
from mmvtr.models.blocks import BlockSupervision
from mmvtr.models.target import Filled, Target, known_of
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


class Ramped(nn.Module):
    """Base class of supervisions that fade in over a training.

    Args:
        ramp: (start, end) as shares of the training.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: a ramp that is not ascending within [0, 1].
    """

    def __init__(self, ramp: tuple[float, float]) -> None:
        super().__init__()
        start, end = ramp
        if not 0 <= start <= end <= 1:
            raise ValueError(f'ramp must be (start, end) with 0 <= start <= end <= 1, not {ramp}')
        self.ramp = (start, end)
        self.progress = 1.0

    @property
    def faded_in(self) -> float:
        """Share of the fade-in: 0 before the start, 1 after the end, linear in between."""
        start, end = self.ramp
        if self.progress >= end:
            return 1.0
        return max(0.0, (self.progress - start) / (end - start))


def down_weight(target: Target, eta: Tensor, *, floor: float, share: float) -> Filled:
    """Return the target of some texts with weights from eta, and sums over its entries.

    Args:
        target: of R texts and V videos.
        eta: float [R, V] in [0, 1], 0 = surely not a negative.
        floor: smallest eta.
        share: interpolation between weights of 1 (0) and eta (1).

    Returns:
        The target with weights [R, V], and sums for :func:`weight_figures`.
    """
    eta = eta.clamp_min(floor)
    negatives = ~target.positives
    sums = dict(
        eta=eta.masked_fill(target.positives, 0.0).sum(),
        negatives=negatives.sum().to(eta.dtype),
        down_weighted=((eta < 0.5) & negatives).sum().to(eta.dtype),
        texts=eta.new_tensor(len(eta)),
    )
    return target._replace(weights=1 - share * (1 - eta)), sums


def weight_figures(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the mean eta of a negative, and the number per text with eta below 1/2, from sums."""
    return {
        'eta_negative': sums['eta'] / sums['negatives'].clamp_min(1),
        'down_weighted_per_text': sums['down_weighted'] / sums['texts'].clamp_min(1),
    }


@MODELS.register_module()
class OracleSupervision(nn.Module):
    """Oracle supervision, which knows the true pairs that are not annotated (an upper bound).

    It needs ``oracle=True`` of the training set, a :class:`~mmvtr.datasets.PlantedDataset`.  Logs
    ``soft_share``, the share of true pairs among the unannotated ones of the joint batch.

    Args:
        treat: role of a soft positive (true, not annotated). ``'ignore'``: a negative of weight
            ``floor``; ``'positive'``: a match like the annotated ones.
        floor: for ``'ignore'``; 0 removes soft positives from the loss.

    Raises:
        ValueError: an unknown ``treat``, a floor outside [0, 1], or one for ``'positive'``; in
            training: a target without truth.
    """

    def __init__(self, *, treat: str = 'ignore', floor: float = 0.0) -> None:
        super().__init__()
        check_one_of(('ignore', 'positive'), treat=treat)
        check_range('[0, 1]', floor=floor)
        if floor and treat == 'positive':
            raise ValueError(f"floor = {floor} weighs negatives, but treat is 'positive'")
        self.treat = treat
        self.floor = floor

    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Return the joint batch's target with weights or further positives, and a figure."""
        soft = known_of(target, 'truth', self) & ~target.positives
        figures = {'soft_share': soft.sum() / (~target.positives).sum().clamp_min(1)}
        if self.treat == 'positive':
            return target._replace(positives=target.positives | soft), figures
        weights = target.weights
        if weights is None:
            weights = torch.ones(soft.shape, device=soft.device)
        return target._replace(weights=weights.masked_fill(soft, self.floor)), figures


@MODELS.register_module()
class RelevanceSupervision(BlockSupervision):
    """Relevance-aware negatives (RAN; Falcon et al., ICIAP 2022): weight 0 for relevant entries.

    An unannotated entry whose relevance (mean over verbs and nouns of the classes' intersection
    over union) reaches the threshold is removed from every loss, and is ``relevant`` in the target.
    RAN is this supervision with HGR's triplet on the hardest negative, RANP the same with a
    RelevantRankingLoss.

    Logs ``relevant_per_text``, the number of videos of the joint batch a text loses as negatives.

    Args:
        negatives_below: the threshold.  RAN: .75 in the official configs, and in the frame-length
            paper (Sec. 4), whose "negative and positive sampling thresholds .75 and .20" we read
            as RAN .75 and RANP .20, since a run of the official code has only one.  None: see
            ``quantile``.
        quantile: alternative to a threshold (ours): entries above this quantile of the relevance of
            the joint batch's unannotated entries are relevant, at most 1 - ``quantile`` of them.
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
                'give one of negatives_below and quantile (the other None), got '
                f'{negatives_below} and {quantile}'
            )
        if quantile is None:
            check_range('(0, 1]', negatives_below=negatives_below)
        else:
            check_range('[0, 1)', quantile=quantile)
        self.negatives_below = negatives_below
        self.quantile = quantile

    @property
    def whole(self) -> str:
        return '' if self.quantile is None else 'a quantile is one of all entries of the batch'

    def block(self, begun: None, rows: slice, target: Target) -> Filled:
        """Return the target of some texts with weights, and sums."""
        relevance = known_of(target, 'relevance', self)
        relevant = self._enough(relevance, ~target.positives) & ~target.positives
        weights = torch.ones_like(relevance) if target.weights is None else target.weights
        sums = dict(relevant=relevant.sum().float(), texts=relevance.new_tensor(len(relevant)))
        weights = weights.masked_fill(relevant, 0.0)
        return target._replace(weights=weights).put(relevant=relevant), sums

    def finish(self, begun: None, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the figure for the log."""
        return {'relevant_per_text': sums['relevant'] / sums['texts'].clamp_min(1)}

    def _enough(self, relevance: Tensor, unannotated: Tensor) -> Tensor:
        if self.quantile is None:
            return relevance >= self.negatives_below
        values = relevance[unannotated]
        if not len(values):
            return torch.zeros_like(unannotated)
        # The k-th smallest, k = ceil(quantile n): torch.quantile refuses 4,096 x 4,096 entries.
        k = max(1, math.ceil(self.quantile * len(values) - 1e-9))
        return relevance > values.kthvalue(k).values
