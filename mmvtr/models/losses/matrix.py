"""Registered losses: thin shells over :mod:`mmvtr.functional`.

A loss sees matrices and a :class:`~mmvtr.models.target.Target`, never the model.  It names the
matrices it reads; of several, the mean of the losses is taken (CLIP2Video: half global, half
aligned).
"""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Iterator, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.dist import gather_rows
from mmvtr.functional.losses.contrastive import Sums, contrastive_sums, loss_of_sums
from mmvtr.functional.precision import at_least_float32
from mmvtr.functional.transforms.sinkhorn import Biases, sinkhorn, sinkhorn_by_rows
from mmvtr.models.pairs import Pairs
from mmvtr.models.target import Target, check_readable
from mmvtr.registry import MODELS


class MatrixLoss(nn.Module):
    """Averages ``compute`` over the matrices it reads, and weighs the result.

    Args:
        reads: names of the score matrices, e.g. ``('global', 'aligned')``.
        loss_weight: factor of the loss.
    """

    #: What a class reads of a target beside its positives: slots, fields of ``known`` and names of
    #: ``beside``; each class says its own.  ``'positives'`` are soft ones, ``'directions'`` weights
    #: by direction.  Those that a supervision ``fills`` are looked for (models/target.py:
    #: check_read), the others are for readers.  None: not known.
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
        values = [self.compute(matrices[n], self.target(target, n), temperature) for n in reads]
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

    def target(self, target: Target | dict[str, Target], name: str) -> Target:
        """Of the matrix ``name``.

        Raises:
            ValueError: its positives are soft, or its weights by direction, and this loss reads
                none of these.
        """
        one = target if isinstance(target, Target) else target[name]
        check_readable(one, self)
        return one

    def beside(self, target: Target, name: str, maker: str) -> Any:
        """What a supervision has left beside the target, by name.

        Raises:
            ValueError: none has; names the ``maker`` of it.
        """
        if name not in target.beside:
            raise ValueError(
                f'{type(self).__name__} reads the {name} beside the target, which no supervision '
                f'has left there: set model.supervision to a {maker}'
            )
        return target.beside[name]

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        raise NotImplementedError(f'{type(self).__name__} must define compute()')


@MODELS.register_module()
class ContrastiveLoss(MatrixLoss):
    """InfoNCE (DVTR Eq. 2); with weights from a supervision the debiased loss (DVTR Eq. 13).

    ARL Eq. 8-10: ``form='own_pair'`` reads the target's ambiguous entries.  The paper adds the two
    directions, of which this is the mean, and leaves lambda_nce open: ``loss_weight`` =
    2 lambda_nce (.02 to .05 in its lineage, on raw inner products with temperature 1).

    Args:
        form, direction: see :func:`mmvtr.functional.losses.contrastive.contrastive`.
        weighted: the direction in which the target's weights count, ``'both'``, ``'t2v'`` or
            ``'v2t'``; in the other one all negatives weigh 1.  Its ``counts`` are of texts, and
            count in t2v whatever this says.

    Raises:
        ValueError: another ``weighted``, or one of the direction that the loss has not.
    """

    slots = ('positives', 'weights', 'directions', 'ambiguous', 'counts', 'columns')

    def __init__(
        self, *, form: str = 'pooled', direction: str = 'both', weighted: str = 'both', **kwargs
    ) -> None:
        super().__init__(**kwargs)
        if weighted not in ('both', 't2v', 'v2t'):
            raise ValueError(f"weighted must be 'both', 't2v' or 'v2t', not {weighted!r}")
        if direction != 'both' and weighted not in ('both', direction):
            raise ValueError(
                f'weighted={weighted!r} leaves no weights to a loss of direction={direction!r}'
            )
        self.form = form
        self.direction = direction
        self.weighted = weighted

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        sums = self.sums(scores, target, temperature)
        values = [self.of_sums(one) for one in sums.values()]
        return sum(values) / len(values)

    def of_sums(self, sums: Sums) -> Tensor:
        """The loss of one direction, 0-dim."""
        return loss_of_sums(sums, self.form)

    def sums(self, scores: Tensor, target: Target, temperature: Tensor | float) -> dict[str, Sums]:
        """What :func:`.contrastive` reads, by direction, [T, V]."""
        target, sums = self.seen(target), {}
        for direction in ('t2v', 'v2t') if self.direction == 'both' else (self.direction,):
            sums.update(
                contrastive_sums(
                    scores,
                    target.positives,
                    temperature=temperature,
                    weights=target.weights if self.weighted in ('both', direction) else None,
                    columns=target.columns,
                    ambiguous=target.ambiguous,
                    counts=target.counts,
                    form=self.form,
                    direction=direction,
                )
            )
        return sums

    def seen(self, target: Target) -> Target:
        """What the loss makes of a target, of all texts or of some."""
        return target

    # -- in blocks: some texts against all videos at a time (models/blocks.py) ------------------

    #: Why it wants the whole matrix as it is configured; '' where blocks will do.
    whole = ''

    def begin(
        self,
        matrices: Callable[[], Iterator[dict[str, Tensor]]],
        pairs: Pairs,
        temperature: Tensor | float,
    ) -> Any:
        """Once for a joint batch: what its blocks share; nothing here.

        Args:
            matrices: goes once over the matrices of this process' blocks, [R, V] by name.
            pairs: the annotated ones of the joint batch.
            temperature: 0-dim.
        """

    def block(
        self,
        begun: Any,
        rows: slice,
        matrices: dict[str, Tensor],
        target: Target | dict[str, Target],
        temperature: Tensor | float,
    ) -> dict[str, dict[str, Sums]]:
        """By matrix and direction: what of the texts ``rows`` the loss has to know."""
        return {
            name: self.sums(matrices[name], self.target(target, name), temperature)
            for name in self.known(matrices)
        }

    def finish(self, sums: dict[str, dict[str, Sums]]) -> Tensor:
        """What all blocks of all processes have left -> 0-dim loss."""
        values = [self.of_sums(one) for ways in sums.values() for one in ways.values()]
        return self.loss_weight * torch.stack(values).mean()


@MODELS.register_module()
class NormalizedContrastiveLoss(ContrastiveLoss):
    """InfoNCE on scores whose retrieval probabilities are normalised (NCL Eq. 4 on Eq. 12).

    The biases a, b of Sinkhorn-Knopp on the joint batch (Fig. 4) are added to the scores.  In the
    t2v term a cancels, in the v2t term b.  Weights of a supervision apply on top; its further
    columns get no bias.

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

    slots = ContrastiveLoss.slots[1:]  # its marginals are of annotated pairs

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

    # -- in blocks ------------------------------------------------------------------------------

    @property
    def whole(self) -> str:
        reason = 'differentiable=True lets gradients pass through Sinkhorn-Knopp'
        return reason if self.differentiable else ''

    @torch.no_grad()
    def begin(
        self,
        matrices: Callable[[], Iterator[dict[str, Tensor]]],
        pairs: Pairs,
        temperature: Tensor | float,
    ) -> Optional[dict[str, Biases]]:
        """Sinkhorn's biases of the joint batch; None where a score is not finite."""
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
        matrices: dict[str, Tensor],
        target: Target | dict[str, Target],
        temperature: Tensor | float,
    ) -> dict[str, dict[str, Sums]]:
        """As that of :class:`ContrastiveLoss`, of sim*."""
        for name, (of_texts, of_videos) in (begun or {}).items():
            matrices = {**matrices, name: matrices[name] + of_texts[rows, None] + of_videos}
        return super().block(begun, rows, matrices, target, temperature)
