"""The ranking loss of CMGSD, with a hinge for each of its margins."""

from __future__ import annotations

from torch import Tensor

from mmvtr.functional.losses.ranking import AVERAGES, several_hinges
from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Target
from mmvtr.registry import MODELS


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
            self.extra(target, 'hinges', 'CMGSDSupervision'),
            weights=target.weights,
            negatives=self.negatives,
            average=self.average,
        )
