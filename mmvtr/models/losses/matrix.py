"""Registered losses: thin shells over :mod:`mmvtr.functional`.

A loss sees matrices and a :class:`~mmvtr.models.target.Target`, never the model.  It names the
matrices it reads; of several, the mean of the losses is taken (CLIP2Video: half global, half
aligned).
"""

from __future__ import annotations

from typing import Any, ClassVar, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.dist import gather_rows
from mmvtr.functional.contrastive import contrastive, refuse_ambiguous
from mmvtr.functional.log_sums import from_sums
from mmvtr.functional.sinkhorn import Biases, sinkhorn, sinkhorn_by_rows
from mmvtr.functional.strip_log_sums import strip_log_sums
from mmvtr.models.strips import Pairs, Reduction, Sweep, join
from mmvtr.models.target import Target
from mmvtr.registry import MODELS


class MatrixLoss(nn.Module):
    """Averages ``compute`` over the matrices it reads, and weighs the result.

    Args:
        reads: names of the score matrices, e.g. ``('global', 'aligned')``.
        loss_weight: factor of the loss.
    """

    #: The slots of the target that a class reads beside its positives; each class says its own.
    #: None: not known.
    slots: ClassVar[Optional[tuple[str, ...]]] = None

    def __init__(self, *, reads: Sequence[str] = ('scores',), loss_weight: float = 1.0) -> None:
        super().__init__()
        self.reads = tuple(reads)
        self.loss_weight = loss_weight

    def forward(
        self,
        matrices: dict[str, Tensor],
        target: Target | dict[str, Target],
        temperature: Tensor | float,
    ) -> Tensor:
        """``{name: [T, V]}``, their target, and the model's temperature -> 0-dim loss.

        ``target`` is one for all matrices, or a dict with one for each that is read.
        """
        reads = self.known(matrices)
        values = [self.compute(matrices[n], target_of(target, n), temperature) for n in reads]
        return self.loss_weight * torch.stack(values).mean()

    def known(self, matrices: dict[str, Tensor]) -> tuple[str, ...]:
        """``reads``, if all of them are there.

        Raises:
            KeyError: names those that are not.
        """
        unknown = [name for name in self.reads if name not in matrices]
        if unknown:
            raise KeyError(
                f'{type(self).__name__} reads {unknown}, the model offers {sorted(matrices)}'
            )
        return self.reads

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        raise NotImplementedError(f'{type(self).__name__} must define compute()')


def target_of(target: Target | dict[str, Target], name: str) -> Target:
    """Of the matrix ``name``."""
    return target if isinstance(target, Target) else target[name]


@MODELS.register_module()
class ContrastiveLoss(MatrixLoss):
    """InfoNCE (DVTR Eq. 2); with weights from a supervision the debiased loss (DVTR Eq. 13).

    ARL Eq. 8-10: ``form='own_pair'`` reads the target's ambiguous entries.  The paper adds the two
    directions, of which this is the mean, and leaves lambda_nce open: ``loss_weight`` =
    2 lambda_nce (.02 to .05 in its lineage, on raw inner products with temperature 1).

    Args:
        form, direction: see :func:`mmvtr.functional.contrastive.contrastive`.
        weighted: the direction in which the target's weights count, ``'both'``, ``'t2v'`` or
            ``'v2t'``; in the other one all negatives weigh 1.  Its ``counts`` are of texts, and
            count in t2v whatever this says.

    Raises:
        ValueError: another ``weighted``.
    """

    slots = ('weights', 'ambiguous', 'counts')

    def __init__(
        self, *, form: str = 'pooled', direction: str = 'both', weighted: str = 'both', **kwargs
    ) -> None:
        super().__init__(**kwargs)
        if weighted not in ('both', 't2v', 'v2t'):
            raise ValueError(f"weighted must be 'both', 't2v' or 'v2t', not {weighted!r}")
        self.form = form
        self.direction = direction
        self.weighted = weighted

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        directions = ('t2v', 'v2t') if self.direction == 'both' else (self.direction,)
        target = self.seen(target)
        values = [
            contrastive(
                scores,
                target.positives,
                temperature=temperature,
                weights=target.weights if self.weighted in ('both', direction) else None,
                ambiguous=target.ambiguous,
                counts=target.counts,
                form=self.form,
                direction=direction,
            )
            for direction in directions
        ]
        return sum(values) / len(values)

    # -- in strips: some texts against all videos at a time (models/strips.py) ------------------

    def begin(self, sweep: Sweep, pairs: Pairs, temperature: Tensor) -> Any:
        """What all strips need to know; nothing here."""

    def strip(
        self,
        begun: Any,
        rows: slice,
        matrices: dict[str, Tensor],
        target: Target | dict[str, Target],
        temperature: Tensor | float,
    ) -> dict[str, Reduction]:
        """By the name of the matrix: what of the texts ``rows`` the loss has to know."""
        return {
            name: self._reduce(
                self.biased(begun, rows, name, matrices),
                rows,
                self.seen(target_of(target, name)),
                temperature,
            )
            for name in self.known(matrices)
        }

    def seen(self, target: Target) -> Target:
        """What the loss makes of a target, of all texts or of some."""
        return target

    def biased(self, begun: Any, rows: slice, name: str, matrices: dict[str, Tensor]) -> Tensor:
        """The scores that are compared, float [R, V]."""
        return matrices[name]

    def _reduce(
        self, scores: Tensor, rows: slice, target: Target, temperature: Tensor | float
    ) -> Reduction:
        positives = target.positives
        pairs = positives.nonzero(as_tuple=True)
        refuse_ambiguous(target.ambiguous, self.form)
        weights = {
            direction: target.weights if self.weighted in ('both', direction) else None
            for direction in ('t2v', 'v2t')
            if self.direction in ('both', direction)
        }
        own, sums = strip_log_sums(
            scores, positives, pairs, temperature, weights, self.form, ambiguous=target.ambiguous
        )
        places = pairs[0] + (rows.start or 0), pairs[1]
        return Reduction(sums.get('t2v'), sums.get('v2t'), own, *places, target.counts)

    @staticmethod
    def join(parts: Sequence[Reduction]) -> Reduction:
        """What strips have left, or processes, in the order of their texts, as one."""
        return join(parts)

    def finish(self, begun: Any, reductions: dict[str, Reduction]) -> Tensor:
        """What all strips of all processes have left, by matrix -> 0-dim loss."""
        values = []
        for one in reductions.values():
            texts, videos = (one.texts, one.rows, one.counts), (one.videos, one.columns, None)
            for sums, anchors, counts in (texts, videos):
                if sums is not None:
                    values.append(from_sums(sums, self.form, (one.own, anchors), counts=counts))
        return self.loss_weight * torch.stack(values).mean()


@MODELS.register_module()
class NormalizedContrastiveLoss(ContrastiveLoss):
    """InfoNCE on scores whose retrieval probabilities are normalised (NCL Eq. 4 on Eq. 12).

    The biases a, b of Sinkhorn-Knopp on the joint batch (Fig. 4) are added to the scores.  In the
    t2v term a cancels, in the v2t term b.  Weights of a supervision apply on top.

    Args:
        iterations: of Sinkhorn-Knopp (paper: 4); 0 normalises columns only.
        marginals: ``'uniform'`` (paper), or ``'positives'``: every text hands its mass to its
            videos, so that a video with more texts in the batch weighs more (Sec. 3.3).
        differentiable: let the gradient pass through the biases, of which the paper does not say.
            With one text a video nothing is lost by stopping it: once the marginals hold, the loss
            is stationary in a and b (envelope theorem).  On 32 x 32 random scores at temperature
            .07 the two gradients differ by 1 % after 4 iterations and by rounding after 500.  With
            several texts a video the v2t term is not stationary: two each, and they differ by a
            quarter however many iterations.
        form, direction, weighted, reads, loss_weight: see :class:`ContrastiveLoss`.
    """

    slots = ContrastiveLoss.slots

    def __init__(
        self,
        *,
        iterations: int = 4,
        marginals: str = 'uniform',
        differentiable: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        if marginals not in ('uniform', 'positives'):
            raise ValueError(f"marginals must be 'uniform' or 'positives', not {marginals!r}")
        self.iterations = iterations
        self.marginals = marginals
        self.differentiable = differentiable

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        # All videos of the joint batch may be broken; and of a NaN the caller can say better than
        # Sinkhorn-Knopp which batch has brought it.
        if scores.numel() and scores.isfinite().all():
            scores = self.normalise(scores, target.positives, temperature)
        return super().compute(scores, target, temperature)

    def normalise(self, scores: Tensor, positives: Tensor, temperature: Tensor | float) -> Tensor:
        """sim* = a + b + scores (Eq. 12), float [T, V]."""
        with torch.set_grad_enabled(self.differentiable and torch.is_grad_enabled()):
            a, b = sinkhorn(
                scores,
                temperature=temperature,
                iterations=self.iterations,
                column_marginals=self._video_marginals(Pairs.of(positives)),
            )
        return scores + a[:, None] + b

    def _video_marginals(self, pairs: Pairs) -> Optional[Tensor]:
        if self.marginals == 'uniform' or not len(pairs.rows):
            return None
        texts, videos = pairs.shape
        share = 1 / pairs.rows.bincount(minlength=texts)[pairs.rows].float()
        shares = share.new_zeros(videos).index_add(0, pairs.columns, share)
        return shares / shares.sum()

    # -- in strips ------------------------------------------------------------------------------

    @property
    def whole(self) -> str:
        """Why it wants the whole matrix; '' where strips will do."""
        reason = 'differentiable=True lets gradients pass through Sinkhorn-Knopp'
        return reason if self.differentiable else ''

    @torch.no_grad()
    def begin(self, sweep: Sweep, pairs: Pairs, temperature: Tensor) -> Optional[dict[str, Biases]]:
        """Sinkhorn's biases of the joint batch; None where a score is not finite."""
        if not all(pairs.shape):
            return None
        biases = {}
        for name in self.known(sweep.matrices(slice(0, 0))):
            biases[name] = sinkhorn_by_rows(
                lambda name=name: sweep.scores(name),
                temperature=temperature,
                iterations=self.iterations,
                column_marginals=self._video_marginals(pairs),
                whole=gather_rows,
                joint=sweep.joint,
            )
            if not biases[name].columns.isfinite().all():
                return None
        return biases

    def biased(self, begun: Any, rows: slice, name: str, matrices: dict[str, Tensor]) -> Tensor:
        if begun is None:
            return matrices[name]
        return matrices[name] + begun[name].rows[rows, None] + begun[name].columns
