"""How well a matrix tells soft positives (true, but not annotated) from true negatives."""

from __future__ import annotations

from typing import Sequence

from torch import Tensor

from mmvtr.evaluation.metric import Matrices, Metric
from mmvtr.functional.relevance import auc
from mmvtr.registry import METRICS
from mmvtr.structures import Relation


@METRICS.register_module()
class SoftPositiveMetric(Metric):
    """Detection of soft positives, the aim of every debiasing weight.

    Keys, for each matrix in ``reads``: ``eta_auc``, the area under the ROC curve in percent of
    soft positives (``truth & ~positives``) against true negatives (``~truth``), over all pairs
    together. The raw scores stand beside eta: a detector that they beat adds nothing. And the
    means of the first matrix: ``eta_mean_positives``, ``eta_mean_soft``, ``eta_mean_negatives``.

    Args:
        reads: matrices to judge, the detector first.
        low_is_soft: those of them where a low value means "soft positive" (DVTR's eta is the
            uncertainty of a match).

    Raises:
        ValueError: (called) the truth is not known, or there are no soft positives.

    Example:
        Text 0 also holds for video 1, and eta is lowest there. ::

            >>> truth = torch.tensor([[1, 1], [0, 1]]).bool()
            >>> relation = Relation(torch.eye(2).bool(), truth=truth)
            >>> metric = SoftPositiveMetric(reads=('eta',))
            >>> metric({'eta': torch.tensor([[0.0, 0.25], [0.75, 0.0]])}, relation)['eta_auc']
            100.0
    """

    prefix = 'soft_positive'

    def __init__(
        self,
        *,
        reads: Sequence[str] = ('eta', 'scores'),
        low_is_soft: Sequence[str] = ('eta',),
    ) -> None:
        self.reads = tuple(reads)
        self.low_is_soft = frozenset(low_is_soft)

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        groups = _groups(relation)
        numbers = {}
        for name in self.reads:
            soft, negatives = (matrices[name][groups[group]] for group in ('soft', 'negatives'))
            area = 100 * float(auc(soft, negatives))
            numbers[f'{name}_auc'] = 100 - area if name in self.low_is_soft else area
        detector = self.reads[0]
        for group, mask in groups.items():
            mean = matrices[detector][mask].double().mean()
            numbers[f'{detector}_mean_{group}'] = float(mean)
        return numbers

    def chance(self, relation: Relation) -> dict[str, float]:
        return {f'{name}_auc': 50.0 for name in self.reads}

    def ceiling(self, relation: Relation) -> dict[str, float]:
        return {f'{name}_auc': 100.0 for name in self.reads}


def _groups(relation: Relation) -> dict[str, Tensor]:
    """Masks bool [T, V] of positives, soft positives and true negatives."""
    if relation.truth is None:
        raise ValueError(
            'SoftPositiveMetric needs the truth of the set, which its dataset does not give: '
            'leave the metric out'
        )
    soft = relation.truth & ~relation.positives
    if not soft.any():
        raise ValueError(
            'no text holds for a video that it does not belong to: there are no soft positives to '
            'detect, leave SoftPositiveMetric out'
        )
    return dict(positives=relation.positives, soft=soft, negatives=~relation.truth)
