"""Ranking losses with one margin, several, or margins by relevance, and EgoNCE."""

from __future__ import annotations

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.losses.ranking import AVERAGES, margin_ranking, several_hinges
from mmvtr.functional.losses.ranking_terms import (
    Part,
    TermChoice,
    check_choice,
    of_parts,
    parts_of,
    row_terms,
)
from mmvtr.functional.values import check_one_of, check_range
from mmvtr.models.losses.matrix import ContrastiveLoss, MatrixLoss
from mmvtr.models.target import Scalar, Target, known_of
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
        self.negatives = negatives
        self.pool = pool
        how = dict(weight_on=weight_on, negatives=negatives, positive=positive, average=average)
        self.how = dict(how, direction=direction)
        self.progress = 1.0
        # Random negatives are drawn from the step number: the same on all processes and after
        # a resume.
        self.register_buffer('step', torch.zeros((), dtype=torch.long))
        check_choice(TermChoice(pool=pool, **how), direction)

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        random = self.negatives == 'random'
        value = margin_ranking(
            scores,
            target.positives,
            margin=self.margin if target.margins is None else target.margins,
            weights=target.weights,
            ambiguous=target.ambiguous,
            ambiguous_margin=self.ambiguous_margin,
            pool=self.pool if random and self.progress >= self.pool_from else None,
            **self.how,
            generator=torch.Generator().manual_seed(int(self.step)) if random else None,
        )
        self.step += self.training
        return value


@MODELS.register_module()
class SeveralHingesLoss(MatrixLoss):
    """Triplet loss whose terms are sums of hinges with different margins (CMGSD).

    The target's ``hinges`` come from a CMGSDSupervision; its ``weights``, if any, apply to the
    sums.  The only code found for CMGSD (see CMGSDSupervision) adds the two directions, while this
    is their mean, and divides by all entries: set ``loss_weight=2`` and ``average='matrix'`` to
    reproduce it.

    Args:
        negatives, average: see :func:`mmvtr.functional.losses.ranking.several_hinges`.
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Raises:
        ValueError: an unknown choice; in training: a target without hinges.
    """

    slots = ('hinges', 'weights')

    def __init__(self, *, negatives: str = 'all', average: str = 'terms', **kwargs) -> None:
        super().__init__(**kwargs)
        check_one_of(('all', 'hardest'), negatives=negatives)
        check_one_of(AVERAGES, average=average)
        self.negatives = negatives
        self.average = average

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        return several_hinges(
            scores,
            target.positives,
            self.extra(target, 'hinges', 'CMGSDSupervision'),
            weights=target.weights,
            negatives=self.negatives,
            average=self.average,
        )


@MODELS.register_module()
class RelevantRankingLoss(MatrixLoss):
    """RANP's second triplet loss, which pulls relevant pairs that are not annotated.

        [margin + s_n - s_p]_+      p: lowest s with relevance >= threshold, annotated pairs left
                                       out;  n: highest s with relevance < threshold

    by rows and by columns, the mean of the two (the official code adds them: ``loss_weight=2``).
    In either, the sum over the anchors is divided by the number of all rows (columns), as in the
    official code, so that few relevant positives make a small loss.  RANP (Falcon et al., ICIAP
    2022) is this loss plus a RankingLoss on the hardest negatives, with the same weight, both with
    a RelevanceSupervision of the same threshold.  Weights of the target apply to n; an entry of
    weight 0 is not a negative.

    Args:
        threshold: the official configs take .4 on EPIC-KITCHENS-100 and .1 or .4 on MSR-VTT; the
            frame-length paper (Sec. 4) .20.  None: use the pairs that the RelevanceSupervision has
            marked relevant, by its threshold or quantile.
        margin: margin of this triplet, ``margin_pos`` in the official code.
        negatives: ``'hardest'`` as above; ``'all'`` (the official configs "NoHN"): a term for each
            n, their sum divided by all unannotated entries.  Combine it with a RankingLoss of
            ``negatives='all', average='entries'``.
        no_positive: treatment of an anchor without a p.  ``'skip'``: no term.  ``'one'`` (official
            code): its s_p is 1, so that ``[margin + s_n - 1]_+`` pushes negatives that score above
            ``1 - margin``, whatever the score of the annotated pair.
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Raises:
        ValueError: a threshold outside (0, 1], unknown ``negatives`` or ``no_positive``; in
            training: a target without relevance, or without the relevant pairs of a supervision.
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
            check_range('(0, 1]', threshold=threshold)
        check_one_of(('hardest', 'all'), negatives=negatives)
        check_one_of(('skip', 'one'), no_positive=no_positive)
        self.threshold = threshold
        self.margin = margin
        self.negatives = negatives
        self.no_positive = no_positive

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        weights = weights_of(target, scores).masked_fill(target.positives, 0.0)
        parts = parts_of(scores, self.further(target), margin=self.margin, weights=weights)
        choice = TermChoice(negatives=self.negatives, positive='hardest')

        def terms(part: Part) -> tuple[Tensor, Tensor]:
            """Return the sum of the rows' terms, and the number of rows or unannotated entries."""
            total, _ = row_terms(self._with_lone(part), choice)
            if self.negatives == 'all':
                return total, (~target.positives).sum()
            return total, torch.tensor(len(part.scores), device=total.device)

        return of_parts(parts, 'both', terms)

    def further(self, target: Target) -> Tensor:
        """Return the further positives beside the annotated pairs, bool [T, V]."""
        if self.threshold is not None:
            relevant = known_of(target, 'relevance', self) >= self.threshold
        else:
            relevant = self.extra(target, 'relevant', 'RelevanceSupervision')
        return relevant & ~target.positives

    def _with_lone(self, part: Part) -> Part:
        """Add a column that is the positive of rows without one, and a negative of none."""
        if self.no_positive == 'skip':
            return part
        scores, relevant, margin, weights = part[:4]
        return Part(
            F.pad(scores, (0, 1), value=1.0),
            torch.cat([relevant, ~relevant.any(1, keepdim=True)], 1),
            F.pad(margin, (0, 1)),
            F.pad(weights, (0, 1)),
        )


@MODELS.register_module()
class EgoNCELoss(ContrastiveLoss):
    """EgoVLP's EgoNCE: InfoNCE whose positives share an action (Lin et al., NeurIPS 2022).

        -log( sum_{P_t} e^{s_tv / temperature} / sum_v e^{s_tv / temperature} )
        P_t = annotated pairs, and entries that share at least one class of every kind (one verb
              and one noun)

    by rows and by columns, the mean of the two (the official code adds them: ``loss_weight=2``).
    This is the action-aware half of EgoNCE.  The other half, scene-aware negatives, concerns the
    composition of the batch, not the loss: for each clip a second one of the same recording, close
    in time.  They are negatives here if a sampler adds them.  The temperature is the model's;
    EgoVLP fixes it at .05.  Only this loss uses the further positives.

    Args:
        form, direction, reads, loss_weight: see
            :class:`~mmvtr.models.losses.matrix.ContrastiveLoss`.

    Raises:
        ValueError: in training: a target without overlap.
    """

    slots = ('weights', 'directions', 'ambiguous', 'counts', 'overlap')

    def seen(self, target: Target) -> Target:
        positives = target.positives | self.further(target)
        return target._replace(positives=positives, columns=None)  # they know annotated pairs alone

    def further(self, target: Target) -> Tensor:
        """Return the further positives beside the annotated pairs, bool [T, V]."""
        return known_of(target, 'overlap', self) & ~target.positives


@MODELS.register_module()
class AdaptiveMaxMarginLoss(MatrixLoss):
    """EgoVLP's adaptive max-margin loss, used to fine-tune it on EPIC-KITCHENS-100.

        [margin c_tp + s_tn - s_tp]_+       ``margin_of='positive'`` (EgoVLP's)
        [margin (1 - c_tn) + s_tn - s_tp]_+ ``margin_of='negative'``

    over each annotated pair (t, p) and all n that do not match t; c is the relevance.  The loss
    is the mean over all terms, then over rows and columns (equal to the official code's joint mean
    if both have equally many terms).  Other matches of an anchor, which the official code uses as
    negatives, are neither positives nor negatives.

    In the first form, the margin of a pair grows with *its* relevance.  It differs from the plain
    loss only if annotated pairs have graded relevance: if a dataset assigns a video any caption
    with relevance > .1, as EgoVLP does on EPIC.  Entries as relevant as the pair itself are pushed
    as hard as the rest, unless a RelevanceSupervision excludes them.  The second form reduces their
    margin, to 0 at relevance 1.

    Args:
        margin: .4 in the official code, twice that of its plain max-margin loss.
        margin_of: whether the relevance of the positive or the negative scales the margin.
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Raises:
        ValueError: an unknown ``margin_of``; in training: a target without relevance.
    """

    slots = ('weights', 'relevance')

    def __init__(self, *, margin: float = 0.4, margin_of: str = 'positive', **kwargs) -> None:
        super().__init__(**kwargs)
        check_one_of(('positive', 'negative'), margin_of=margin_of)
        self.margin = margin
        self.margin_of = margin_of

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        relevance = known_of(target, 'relevance', self)
        of_negative = self.margin_of == 'negative'
        (part,) = parts_of(
            scores,
            target.positives,
            margin=self.margin * (1 - relevance) if of_negative else 0.0,
            weights=target.weights,
        )
        if not of_negative:
            part = part._replace(ahead=part.scores - self.margin * relevance)
        return of_parts([part], 'both', lambda one: row_terms(one, TermChoice()))


def weights_of(target: Target, like: Tensor) -> Tensor:
    """Return the weights of the target, all 1 if it has none; float [T, V]."""
    return torch.ones_like(like) if target.weights is None else target.weights
