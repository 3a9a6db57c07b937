"""Losses that know how relevant each video is to each text: RANP, EgoNCE, adaptive max-margin.

They read what the dataset's classes (verbs, nouns) say of pairs nobody has annotated, which the
retriever writes into ``Annotation.relevance`` and ``Annotation.overlap`` of the joint batch:
nothing is gathered here.
"""

from __future__ import annotations

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.losses.ranking_terms import Choice, Part, of_parts, parts_of, row_terms
from mmvtr.models.losses.matrix import ContrastiveLoss, MatrixLoss
from mmvtr.models.target import Target, check_threshold, from_classes
from mmvtr.registry import MODELS


@MODELS.register_module()
class RelevantRankingLoss(MatrixLoss):
    """RANP's second triplet: pull what is relevant though nobody has annotated it.

        [margin + s_n - s_p]_+      p: lowest s with relevance >= threshold, annotated pairs left
                                       out;  n: highest s with relevance < threshold

    by rows and by columns, the mean of the two (the official code adds them: ``loss_weight=2``).
    Of either, the sum over the anchors is divided by all rows (all columns), as the official code
    does, so that few relevant positives make a small loss.  RANP (Falcon et al., ICIAP 2022) is
    this beside a RankingLoss on the hardest negatives, with the same weight, both under a
    RelevanceSupervision of the same threshold.  Weights of the target apply to n; an entry of
    weight 0 is no negative.

    Args:
        threshold: the official configs take .4 on EPIC-KITCHENS-100 and .1 or .4 on MSR-VTT; the
            frame-length paper (Sec. 4) .20.  None: relevant is what the RelevanceSupervision has
            found so, by its threshold or quantile.
        margin: of this triplet, ``margin_pos`` in the official code.
        negatives: ``'hardest'`` as above; ``'all'`` (the official configs "NoHN"): a term for each
            n, their sum divided by all unannotated entries.  The RankingLoss beside it then is
            ``negatives='all', average='entries'``.
        no_positive: what an anchor without a p does.  ``'skip'``: no term.  ``'one'`` (official
            code): its s_p is 1, so that ``[margin + s_n - 1]_+`` pushes negatives that score above
            ``1 - margin`` whatever the annotated pair scores.
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Raises:
        ValueError: a threshold outside (0, 1], unknown ``negatives`` or ``no_positive``; in
            training: a target without relevance, or without what a supervision has found.
    """

    slots = ('weights', 'relevance', 'relevant')

    def __init__(
        self,
        *,
        threshold: Optional[float] = 0.2,
        margin: float = 0.2,
        negatives: str = 'hardest',
        no_positive: str = 'skip',
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        if threshold is not None:
            check_threshold('threshold', threshold)
        if negatives not in ('hardest', 'all'):
            raise ValueError(f"negatives must be 'hardest' or 'all', not {negatives!r}")
        if no_positive not in ('skip', 'one'):
            raise ValueError(f"no_positive must be 'skip' or 'one', not {no_positive!r}")
        self.threshold = threshold
        self.margin = margin
        self.negatives = negatives
        self.no_positive = no_positive

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        weights = weights_of(target, scores).masked_fill(target.positives, 0.0)
        parts = parts_of(scores, self.further(target), margin=self.margin, weights=weights)
        choice = Choice(negatives=self.negatives, positive='hardest')

        def terms(part: Part) -> tuple[Tensor, Tensor]:
            """Sum of the rows' terms, and all rows, or all unannotated entries."""
            total, _ = row_terms(self._with_lone(part), choice)
            if self.negatives == 'all':
                return total, (~target.positives).sum()
            return total, torch.tensor(len(part.scores), device=total.device)

        return of_parts(parts, 'both', terms)

    def further(self, target: Target) -> Tensor:
        """What it pulls beside the annotated pairs, bool [T, V]."""
        return self._relevant(target) & ~target.positives

    def _with_lone(self, part: Part) -> Part:
        """With a column that is the positive of rows without one, and nobody's negative."""
        if self.no_positive == 'skip':
            return part
        scores, relevant, margin, weights = part[:4]
        return Part(
            F.pad(scores, (0, 1), value=1.0),
            torch.cat([relevant, ~relevant.any(1, keepdim=True)], 1),
            F.pad(margin, (0, 1)),
            F.pad(weights, (0, 1)),
        )

    def _relevant(self, target: Target) -> Tensor:
        if self.threshold is not None:
            return from_classes(target, 'relevance', self) >= self.threshold
        if 'relevant' not in target.beside:
            raise ValueError(
                f'{type(self).__name__} with threshold=None pulls what a RelevanceSupervision has '
                'found relevant, but the model has none'
            )
        return target.beside['relevant']


@MODELS.register_module()
class EgoNCELoss(ContrastiveLoss):
    """EgoVLP's EgoNCE: InfoNCE whose positives share an action (Lin et al., NeurIPS 2022).

        -log( sum_{P_t} e^{s_tv / temperature} / sum_v e^{s_tv / temperature} )
        P_t = annotated pairs, and entries that share at least one class of every kind (one verb
              and one noun)

    by rows and by columns, the mean of the two (the official code adds them: ``loss_weight=2``).
    This is the action-aware half of EgoNCE.  The other, scene-aware negatives, is a matter of who
    is in the batch, not of the loss: beside each clip a second one of the same recording, close in
    time.  They are negatives here as soon as a sampler brings them.  The temperature is the
    model's; EgoVLP fixes it at .05.  Only this loss sees the further positives.

    Args:
        form, direction, reads, loss_weight: see
            :class:`~mmvtr.models.losses.matrix.ContrastiveLoss`.

    Raises:
        ValueError: in training: a target without overlap.
    """

    slots = ('weights', 'directions', 'ambiguous', 'counts', 'overlap')

    def seen(self, target: Target) -> Target:
        return target._replace(positives=target.positives | self.further(target))

    def further(self, target: Target) -> Tensor:
        """What it pulls beside the annotated pairs, bool [T, V]."""
        return from_classes(target, 'overlap', self) & ~target.positives


@MODELS.register_module()
class AdaptiveMaxMarginLoss(MatrixLoss):
    """EgoVLP's adaptive max-margin loss, with which it is fine-tuned on EPIC-KITCHENS-100.

        [margin c_tp + s_tn - s_tp]_+       ``margin_of='positive'`` (EgoVLP's)
        [margin (1 - c_tn) + s_tn - s_tp]_+ ``margin_of='negative'``

    over each annotated pair (t, p) and all n that are no match of t; c is the relevance.  The mean
    over all terms, and of rows and columns (the official code's mean over both at once, where
    these have equally many).  A pair's siblings, which the official code takes for negatives, are
    neither.

    The first form says how far a pair of *its* relevance has to lead.  It differs from the plain
    loss only where annotated pairs are relevant by degrees: where a dataset hands a video any
    caption with relevance > .1, as EgoVLP does on EPIC.  Whatever is as relevant as the pair
    itself is pushed as hard as the rest, unless a RelevanceSupervision leaves it out.  The second
    form down-weights it: nothing of relevance 1 has to stay behind.

    Args:
        margin: .4 in the official code, twice that of its plain max-margin loss.
        margin_of: whose relevance scales the margin, see above.
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Raises:
        ValueError: an unknown ``margin_of``; in training: a target without relevance.
    """

    slots = ('weights', 'relevance')

    def __init__(self, *, margin: float = 0.4, margin_of: str = 'positive', **kwargs) -> None:
        super().__init__(**kwargs)
        if margin_of not in ('positive', 'negative'):
            raise ValueError(f"margin_of must be 'positive' or 'negative', not {margin_of!r}")
        self.margin = margin
        self.margin_of = margin_of

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        relevance = from_classes(target, 'relevance', self)
        of_negative = self.margin_of == 'negative'
        (part,) = parts_of(
            scores,
            target.positives,
            margin=self.margin * (1 - relevance) if of_negative else 0.0,
            weights=target.weights,
        )
        if not of_negative:
            part = part._replace(ahead=part.scores - self.margin * relevance)
        return of_parts([part], 'both', lambda one: row_terms(one, Choice()))


def weights_of(target: Target, like: Tensor) -> Tensor:
    """The weights of the target, 1 where a supervision gives none; float [T, V]."""
    return torch.ones_like(like) if target.weights is None else target.weights
