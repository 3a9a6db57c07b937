"""The ranking loss of CMGSD, with a hinge for each of its margins."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from mmvtr.functional.ranking_strips import (
    Anchors,
    anchors_of,
    best_sum,
    from_column_terms,
)
from mmvtr.functional.ranking_terms import Choice, Part, hinge_row_terms, parts_of
from mmvtr.functional.several_hinges import AVERAGES, several_hinges
from mmvtr.models.losses.ranking import Begun, Sums, TripletLoss
from mmvtr.models.target import Hinge, Target
from mmvtr.registry import MODELS


@MODELS.register_module()
class SeveralHingesLoss(TripletLoss):
    """Triplet loss whose terms are sums of hinges, each with margins of its own (CMGSD).

    The target's ``hinges`` come from a CMGSDSupervision; its ``weights``, if any, apply to the
    sums.  The only code found for CMGSD (see CMGSDSupervision) adds the two directions, of which
    this is the mean, and divides by all entries, so that it is this with ``loss_weight=2`` and
    ``average='matrix'``.

    Args:
        negatives, average: see :func:`mmvtr.functional.several_hinges.several_hinges`.
        reads, loss_weight: see :class:`~mmvtr.models.losses.matrix.MatrixLoss`.

    Raises:
        ValueError: an unknown choice; in training: a target without hinges.
    """

    slots = ('hinges', 'weights')
    positives_supervised = True  # an annotation alone has no hinges

    def __init__(self, *, negatives: str = 'all', average: str = 'terms', **kwargs) -> None:
        super().__init__(**kwargs)
        for name, value, known in (
            ('negatives', negatives, ('all', 'hardest')),
            ('average', average, AVERAGES),
        ):
            if value not in known:
                raise ValueError(f'{name} must be one of {known}, not {value!r}')
        self.negatives = negatives
        self.average = average

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        return several_hinges(
            scores,
            target.positives,
            self._hinges(target),
            weights=target.weights,
            negatives=self.negatives,
            average=self.average,
        )

    def _hinges(self, target: Target) -> tuple[Hinge, ...]:
        if target.hinges is None:
            raise ValueError(
                f'{type(self).__name__} reads target.hinges, which the model has not: set '
                "model.supervision=dict(type='CMGSDSupervision', ...)"
            )
        return target.hinges

    # -- in strips: a part of the loss for each hinge -------------------------------------------

    def choice(self) -> Choice:
        return Choice(negatives=self.negatives, average='entries')

    def parts(self, scores: Tensor, target: Target) -> list[Part]:
        made = []
        for weight, margins in self._hinges(target):
            weights = torch.ones_like(margins) if target.weights is None else target.weights
            how = dict(margin=margins, weights=weight * weights)
            made += parts_of(scores, target.positives, **how)
        return made

    def best(
        self, parts: Sequence[Part], anchors: Anchors, choice: Choice
    ) -> list[tuple[Tensor, Tensor]]:
        """The negative with the largest sum is that of all parts."""
        return [best_sum(parts, anchors)] * len(parts)

    def rows_of(
        self, parts: Sequence[Part], choice: Choice, target: Target
    ) -> tuple[tuple[Tensor, Tensor], ...]:
        """Of all parts at once."""
        part, weights = parts[0], target.weights
        weights = torch.ones_like(part.scores) if weights is None else weights.to(part.scores)
        hinges = [(hinge.weight, one.margin) for hinge, one in zip(target.hinges, parts)]
        how = dict(negatives=self.negatives, average=self.average)
        return (hinge_row_terms(part.scores, part.positives, weights, hinges, **how),)

    def finish(self, begun: dict[str, Begun], sums: dict[str, Sums]) -> Tensor:
        values = [self._mean(begun[name].shape[0], one) for name, one in sums.items()]
        return self.loss_weight * torch.stack(values).mean()

    def _mean(self, texts: int, sums: Sums) -> Tensor:
        ((rows, count),) = sums.rows
        scores = anchors_of(sums.own, 'own').scores
        terms, others = zip(*(from_column_terms(x, scores, 'entries') for x in sums.columns))
        if self.negatives == 'hardest':
            divisor = count.new_tensor(len(scores))
        else:
            matrix = count.new_tensor(len(scores) * texts)
            divisor = others[0] if self.average == 'terms' else matrix
        return (rows / count.clamp_min(1) + sum(terms) / divisor.clamp_min(1)) / 2
