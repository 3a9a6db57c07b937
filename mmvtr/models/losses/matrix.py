"""Registered losses: thin wrappers of :mod:`mmvtr.functional`.

A loss gets matrices and a :class:`~mmvtr.models.target.Target`, never the model.  It names the
matrices it reads; for several, the losses are averaged (CLIP2Video: half global, half aligned).
"""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Iterator, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.dist import gather_rows
from mmvtr.errors import UnknownKey
from mmvtr.functional.losses.contrastive import Sums, contrastive_sums, loss_of_sums
from mmvtr.functional.losses.pairwise import REDUCTIONS, binary_cross_entropy, pseudo_positives
from mmvtr.functional.losses.robust import rince_of_sums
from mmvtr.functional.transforms.sinkhorn import Biases, sinkhorn, sinkhorn_by_rows
from mmvtr.functional.values import at_least_float32, check_one_of, check_range
from mmvtr.models.blocks import Pairs
from mmvtr.models.target import Matrices, Scalar, Target, Targets, check_readable
from mmvtr.registry import MODELS


class MatrixLoss(nn.Module):
    """Base class of losses: the weighted mean of ``compute`` over the matrices that it reads.

    Args:
        reads: names of the score matrices, e.g. ``('global', 'aligned')``.
        loss_weight: factor of the loss.
    """

    #: Parts of a target that a class reads beside its positives: slots, fields of ``known`` and
    #: names of ``extras``; each class lists its own.  ``'positives'`` means soft ones,
    #: ``'directions'`` weights by direction.  Those that a supervision ``fills`` are checked
    #: (models/target.py: check_read), the others are documentation.  None: unknown.
    slots: ClassVar[Optional[tuple[str, ...]]] = None

    def __init__(self, *, reads: Sequence[str] = ('scores',), loss_weight: float = 1.0) -> None:
        super().__init__()
        self.reads = tuple(reads)
        self.loss_weight = loss_weight

    def forward(self, matrices: Matrices, target: Targets, temperature: Scalar) -> Tensor:
        """Return the 0-dim loss of ``{name: [T, V]}``, their target and the model's temperature.

        ``target`` is one for all matrices, or a dict with one for each matrix read.
        """
        reads = self.existing(matrices)
        values = [self.compute(matrices[n], self.target(target, n), temperature) for n in reads]
        return self.loss_weight * torch.stack(values).mean()

    def existing(self, matrices: Matrices) -> tuple[str, ...]:
        """Return ``reads`` if all of these matrices exist.

        Raises:
            KeyError: names the missing ones.
        """
        unknown = [name for name in self.reads if name not in matrices]
        if unknown:
            raise UnknownKey(
                f'{type(self).__name__} reads {unknown}, the model offers {sorted(matrices)}'
            )
        return self.reads

    def target(self, target: Targets, name: str) -> Target:
        """Return the target of the matrix ``name``.

        Raises:
            ValueError: its positives are soft, or its weights by direction, and this loss does not
                support that.
        """
        single = target if isinstance(target, Target) else target[name]
        check_readable(single, self)
        return single

    def extra(self, target: Target, name: str, maker: str) -> Any:
        """Return the entry ``name`` that a supervision has put into ``target.extras``.

        Raises:
            ValueError: no supervision has; names a ``maker`` that does.
        """
        if name not in target.extras:
            raise ValueError(
                f'{type(self).__name__} reads the {name} beside the target, which no supervision '
                f'has put there: set model.supervision to a {maker}'
            )
        return target.extras[name]

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        raise NotImplementedError(f'{type(self).__name__} must define compute()')


@MODELS.register_module()
class ContrastiveLoss(MatrixLoss):
    """InfoNCE (DVTR Eq. 2); with weights from a supervision the debiased loss (DVTR Eq. 13).

    ARL Eq. 8-10: ``form='own_pair'`` reads the target's ambiguous entries.  The paper adds the two
    directions, while this is their mean, and does not state lambda_nce: ``loss_weight`` =
    2 lambda_nce (.02 to .05 in its predecessors, on raw inner products with temperature 1).

    Args:
        form, direction: see :func:`mmvtr.functional.losses.contrastive.contrastive`.
        weighted: the direction in which the target's weights apply, ``'both'``, ``'t2v'`` or
            ``'v2t'``; in the other one all negatives have weight 1.  Its ``counts`` belong to
            texts, and always apply in t2v.

    Raises:
        ValueError: another ``weighted``, or a direction that the loss does not have.
    """

    slots = ('positives', 'weights', 'directions', 'ambiguous', 'counts', 'columns')

    def __init__(
        self, *, form: str = 'pooled', direction: str = 'both', weighted: str = 'both', **kwargs
    ) -> None:
        super().__init__(**kwargs)
        check_one_of(('both', 't2v', 'v2t'), weighted=weighted)
        if direction != 'both' and weighted not in ('both', direction):
            raise ValueError(
                f'weighted={weighted!r} leaves no weights for a loss with direction={direction!r}'
            )
        self.form = form
        self.direction = direction
        self.weighted = weighted

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        sums = self.sums(scores, target, temperature)
        values = [self.of_sums(terms) for terms in sums.values()]
        return sum(values) / len(values)

    def of_sums(self, sums: Sums) -> Tensor:
        """Return the loss of one direction, 0-dim."""
        return loss_of_sums(sums, self.form)

    def sums(self, scores: Tensor, target: Target, temperature: Scalar) -> dict[str, Sums]:
        """Return the sums of :func:`.contrastive` for scores [T, V], by direction."""
        target, sums = self.seen(target), {}
        alike = target.weights is None or self.weighted == 'both'  # then one pass gives both
        apart = self.direction == 'both' and not alike
        for direction in ('t2v', 'v2t') if apart else (self.direction,):
            sums.update(
                contrastive_sums(
                    scores,
                    target.positives,
                    temperature=temperature,
                    weights=target.weights if alike or self.weighted == direction else None,
                    columns=target.columns,
                    ambiguous=target.ambiguous,
                    counts=target.counts,
                    form=self.form,
                    direction=direction,
                )
            )
        return sums

    def seen(self, target: Target) -> Target:
        """Return the target as the loss uses it, for all texts or for some."""
        return target

    # -- in blocks: some texts against all videos at a time (models/blocks.py) ------------------

    #: Why its configuration needs the whole matrix; '' if blocks suffice.
    whole = ''

    def begin(
        self, matrices: Callable[[], Iterator[Matrices]], pairs: Pairs, temperature: Scalar
    ) -> Any:
        """Return what all blocks of a joint batch share, called once per batch; here None.

        Args:
            matrices: returns an iterator over the matrices of this process' blocks, [R, V] by name.
            pairs: annotated pairs of the joint batch.
            temperature: 0-dim.
        """

    def block(
        self, begun: Any, rows: slice, matrices: Matrices, target: Targets, temperature: Scalar
    ) -> dict[str, dict[str, Sums]]:
        """Return the sums of the texts ``rows`` that the loss needs, by matrix and direction."""
        return {
            name: self.sums(matrices[name], self.target(target, name), temperature)
            for name in self.existing(matrices)
        }

    def finish(self, sums: dict[str, dict[str, Sums]]) -> Tensor:
        """Turn the sums of all blocks of all processes into the 0-dim loss."""
        values = [self.of_sums(terms) for ways in sums.values() for terms in ways.values()]
        return self.loss_weight * torch.stack(values).mean()


@MODELS.register_module()
class NormalizedContrastiveLoss(ContrastiveLoss):
    """InfoNCE on scores whose retrieval probabilities are normalised (NCL Eq. 4 on Eq. 12).

    The biases a, b of Sinkhorn-Knopp on the joint batch (Fig. 4) are added to the scores.  In the
    t2v term a cancels, in the v2t term b.  Weights of a supervision apply too; its further columns
    get no bias.

    Args:
        iterations: iterations of Sinkhorn-Knopp (paper: 4); 0 normalises columns only.
        marginals: ``'uniform'`` (paper), or ``'positives'``: every text distributes its mass over
            its videos, so that a video with more texts in the batch weighs more (Sec. 3.3).
        differentiable: let the gradient pass through the biases; the paper does not say.  With one
            text per video nothing is lost without it: once the marginals hold, the loss is
            stationary in a and b (envelope theorem).  On 32 x 32 random scores at temperature .07
            the two gradients differ by 1 % after 4 iterations and by rounding after 500.  With
            several texts per video the v2t term is not stationary: with two each, the gradients
            differ by a quarter for any number of iterations.
        form, direction, weighted, reads, loss_weight: see :class:`ContrastiveLoss`.
    """

    slots = ContrastiveLoss.slots[1:]  # its marginals use annotated pairs

    def __init__(
        self,
        *,
        iterations: int = 4,
        marginals: str = 'uniform',
        differentiable: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        check_one_of(('uniform', 'positives'), marginals=marginals)
        self.iterations = iterations
        self.marginals = marginals
        self.differentiable = differentiable

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        # All videos of the joint batch may be broken; and for a NaN the caller's error names the
        # batch, which Sinkhorn-Knopp's cannot.
        if scores.numel() and scores.isfinite().all():
            scores = self.normalise(scores, target.positives, temperature)
        return super().compute(scores, target, temperature)

    def normalise(self, scores: Tensor, positives: Tensor, temperature: Scalar) -> Tensor:
        """Return sim* = a + b + scores (Eq. 12), float [T, V]."""
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

    # -- in blocks ------------------------------------------------------------------------------

    @property
    def whole(self) -> str:
        reason = 'differentiable=True lets gradients pass through Sinkhorn-Knopp'
        return reason if self.differentiable else ''

    @torch.no_grad()
    def begin(
        self, matrices: Callable[[], Iterator[Matrices]], pairs: Pairs, temperature: Scalar
    ) -> Optional[dict[str, Biases]]:
        """Return Sinkhorn's biases of the joint batch; None if a score is not finite."""
        if not all(pairs.shape):
            return None
        biases = {}
        for name in self.reads:
            biases[name] = sinkhorn_by_rows(
                lambda name=name: (at_least_float32(some[name]) for some in matrices()),
                temperature=temperature,
                iterations=self.iterations,
                column_marginals=self._video_marginals(pairs),
                whole=gather_rows,
                joint=lambda log_sums: gather_rows(log_sums[None]).logsumexp(0),
            )
            if not biases[name].columns.isfinite().all():
                return None
        return biases

    def block(
        self,
        begun: Optional[dict[str, Biases]],
        rows: slice,
        matrices: Matrices,
        target: Targets,
        temperature: Scalar,
    ) -> dict[str, dict[str, Sums]]:
        """Return :class:`ContrastiveLoss`'s sums, computed on sim*."""
        for name, (of_texts, of_videos) in (begun or {}).items():
            matrices = {**matrices, name: matrices[name] + of_texts[rows, None] + of_videos}
        return super().block(begun, rows, matrices, target, temperature)


@MODELS.register_module()
class RINCELoss(ContrastiveLoss):
    """Robust InfoNCE (Chuang et al., CVPR 2022), see :func:`.rince`.

    Args:
        q, density: see :func:`.rince`; they depend on the temperature.
        direction, weighted, reads, loss_weight: see
            :class:`~mmvtr.models.losses.matrix.ContrastiveLoss`.

    Raises:
        ValueError: a ``form`` other than ``'pooled'``; arguments out of range.
    """

    slots = tuple(slot for slot in ContrastiveLoss.slots if slot != 'ambiguous')

    def __init__(self, *, q: float = 0.5, density: float = 0.01, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_range('(0, 1]', q=q)
        check_range('(0, inf)', density=density)
        if self.form != 'pooled':
            raise ValueError(f'RINCE pools positives, which form={self.form!r} does not')
        self.q = q
        self.density = density

    def of_sums(self, sums: Sums) -> Tensor:
        return rince_of_sums(sums, self.q, self.density)


@MODELS.register_module()
class SigmoidLoss(MatrixLoss):
    """Binary cross-entropy of ``scores / temperature + bias`` (SigLIP, ProLIP, PCME++).

    - SigLIP: cosines, initial temperature .1 and bias -10, both learnt.
    - ProLIP: SigLIP's settings with ``GaussianSimilarity(form='product')``.
    - PCME++: ``GaussianSimilarity(form='distance')``, ``reduction='mean'``, ``pseudo_weight=.1``,
      ``loss_weight=2`` (both directions, which are equal), initial temperature .2 and bias 5.  Its
      scale and SigLIP's are parameterised differently: here it is the exponential of a parameter.

    Labels are the annotation's positives, or the mixed ones of ``MixupSupervision``.  Weights of a
    supervision apply to the terms of negatives.

    Args:
        bias: initial bias.
        learnable: train the bias.
        reduction: see :func:`.binary_cross_entropy`.
        pseudo_weight: weight of the mean of two further losses, whose labels are the
            :func:`.pseudo_positives` of each text and those of each video.
        reads, loss_weight: see :class:`MatrixLoss`.

    Raises:
        ValueError: unknown reduction, or a negative ``pseudo_weight``.
    """

    slots = ('weights', 'labels')

    def __init__(
        self,
        *,
        bias: float = -10.0,
        learnable: bool = True,
        reduction: str = 'items',
        pseudo_weight: float = 0.0,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        check_one_of(REDUCTIONS, reduction=reduction)
        check_range('[0, inf]', pseudo_weight=pseudo_weight)
        self.bias = nn.Parameter(torch.tensor(float(bias)), requires_grad=learnable)
        self.reduction = reduction
        self.pseudo_weight = pseudo_weight

    def compute(self, scores: Tensor, target: Target, temperature: Scalar) -> Tensor:
        labels = target.extras.get('labels', target.positives)
        logits = at_least_float32(scores) / temperature + self.bias
        loss = self._of(logits, labels, target)
        if not self.pseudo_weight:
            return loss
        fixed = logits.detach()
        sides = pseudo_positives(fixed, labels), pseudo_positives(fixed.t(), labels.t()).t()
        pseudo = sum(self._of(logits, side, target) for side in sides) / 2
        return loss + self.pseudo_weight * pseudo

    def _of(self, logits: Tensor, labels: Tensor, target: Target) -> Tensor:
        return binary_cross_entropy(
            logits, labels, weights=target.weights, reduction=self.reduction
        )
