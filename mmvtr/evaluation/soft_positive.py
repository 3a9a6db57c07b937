"""How well a matrix separates soft positives (true, but not annotated) from true negatives."""

from __future__ import annotations

from typing import Mapping, Sequence

import torch
from torch import Tensor

from mmvtr.evaluation.metric import Matrices, Metric, directed, known
from mmvtr.functional.metrics.relevance import auc
from mmvtr.registry import METRICS
from mmvtr.structures import Relation


@METRICS.register_module()
class SoftPositiveMetric(Metric):
    """AUC and precision of detecting unannotated true pairs, which debiasing weights aim at.

    Keys, in percent, for each matrix in ``reads``, over all pairs together:

    - ``eta_auc``: area under the ROC curve of soft positives (``truth & ~positives``) against true
      negatives (``~truth``).
    - ``eta_breakeven``: precision, which equals the recall, of flagging as many of the likeliest
      unannotated pairs as there are soft positives (ties in expectation).  Chance is the share of
      soft positives among unannotated pairs.
    - ``eta_precision``, ``eta_recall``, for matrices in ``low_is_soft`` only: of flagging pairs
      below ``threshold``; no precision if no pair is.

    The raw scores are reported beside eta: a detector must beat them to be useful. Further keys are
    the means of the first matrix: ``eta_mean_positives``, ``eta_mean_soft``,
    ``eta_mean_negatives``. For scores that differ by direction, each number is the mean of the two.

    Args:
        reads: matrices to judge, the detector first.
        low_is_soft: those of them in which a low value means "soft positive" (DVTR's eta is the
            uncertainty of a match).
        threshold: for their precision and recall.

    Raises:
        ValueError: (called) the truth is not known, or there are no soft positives.

    Example:
        Text 0 also holds for video 1, and eta is lowest there. ::

            >>> truth = torch.tensor([[1, 1], [0, 1]]).bool()
            >>> relation = Relation(torch.eye(2).bool(), truth=truth)
            >>> metric = SoftPositiveMetric(reads=('eta',))
            >>> numbers = metric({'eta': torch.tensor([[0.0, 0.25], [0.75, 0.0]])}, relation)
            >>> numbers['eta_auc'], numbers['eta_breakeven'], numbers['eta_recall']
            (100.0, 100.0, 100.0)
    """

    prefix = 'soft_positive'

    def __init__(
        self,
        *,
        reads: Sequence[str] = ('eta', 'scores'),
        low_is_soft: Sequence[str] = ('eta',),
        threshold: float = 0.5,
    ) -> None:
        self.reads = tuple(reads)
        self.low_is_soft = frozenset(low_is_soft)
        self.threshold = threshold

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        groups = _groups(relation)
        numbers = {}
        for name in self.reads:
            t2v, v2t = directed(matrices[name])
            one = other = self._of(name, t2v, groups)
            if v2t is not t2v:
                other = self._of(name, v2t, groups)
            numbers.update({key: (one[key] + other[key]) / 2 for key in one if key in other})
        return numbers

    def _of(self, name: str, matrix: Tensor, groups: Mapping[str, Tensor]) -> dict[str, float]:
        """Return the numbers of one matrix [T, V]."""
        soft, negatives = matrix[groups['soft']], matrix[groups['negatives']]
        numbers = {}
        if name in self.low_is_soft:
            for key, value in flagged_below(soft, negatives, self.threshold).items():
                numbers[f'{name}_{key}'] = 100 * value
            soft, negatives = -soft, -negatives
        numbers[f'{name}_auc'] = 100 * float(auc(soft, negatives))
        numbers[f'{name}_breakeven'] = 100 * breakeven(soft, negatives)
        if name == self.reads[0]:
            for group, mask in groups.items():
                numbers[f'{name}_mean_{group}'] = float(matrix[mask].double().mean())
        return numbers

    def chance(self, relation: Relation) -> dict[str, float]:
        groups = _groups(relation)
        soft, negatives = (int(groups[group].sum()) for group in ('soft', 'negatives'))
        share = 100 * soft / (soft + negatives)
        return self._of_each(auc=50.0, breakeven=share)

    def ceiling(self, relation: Relation) -> dict[str, float]:
        return self._of_each(auc=100.0, breakeven=100.0)

    def _of_each(self, **values: float) -> dict[str, float]:
        return {f'{name}_{key}': value for name in self.reads for key, value in values.items()}


def breakeven(soft: Tensor, negatives: Tensor) -> float:
    """Return the expected precision (= recall) of flagging the top P of all entries.

    Args:
        soft: values [P] of the class to detect, P > 0.
        negatives: values [N] of the other class.

    Example:
        Two are flagged: .9, which is soft, and one of the three that tie at .5. ::

            >>> breakeven(torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.5, 0.1]))
            0.6666666666666666

    Returns:
        Precision in [0, 1].
    """
    last = torch.cat([soft, negatives]).topk(len(soft)).values[-1]
    above, wrongly_above = (int((x > last).sum()) for x in (soft, negatives))
    tied, wrongly_tied = (int((x == last).sum()) for x in (soft, negatives))
    room = len(soft) - above - wrongly_above
    return (above + room * tied / (tied + wrongly_tied)) / len(soft)


def flagged_below(soft: Tensor, negatives: Tensor, threshold: float) -> dict[str, float]:
    """Return ``recall`` and, if anything is flagged, ``precision``, as shares in [0, 1].

    Arguments as in :func:`breakeven`.

    Example:
        ::

            >>> flagged_below(torch.tensor([0.1, 0.9]), torch.tensor([0.2, 0.3, 0.8]), 0.5)
            {'recall': 0.5, 'precision': 0.3333333333333333}
    """
    hits, wrong = (int((x < threshold).sum()) for x in (soft, negatives))
    rates = {'recall': hits / len(soft)}
    return {**rates, 'precision': hits / (hits + wrong)} if hits + wrong else rates


def _groups(relation: Relation) -> dict[str, Tensor]:
    """Return masks, bool [T, V], of positives, soft positives and true negatives."""
    truth = known(relation, 'truth', 'SoftPositiveMetric')
    soft = truth & ~relation.positives
    if not soft.any():
        raise ValueError(
            'no text holds for a video that it does not belong to: there are no soft positives to '
            'detect, leave SoftPositiveMetric out'
        )
    return dict(positives=relation.positives, soft=soft, negatives=~truth)
