"""How evenly a gallery is retrieved, and error rates by retrieval mass (NCL Sec. 3.2)."""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from mmvtr.errors import UnknownKey
from mmvtr.evaluation.metric import Matrices, Metric, constant, directed
from mmvtr.functional.metrics import hubness as fn
from mmvtr.functional.values import check_range
from mmvtr.registry import METRICS
from mmvtr.structures import Relation


@METRICS.register_module()
class NormalisationMetric(Metric):
    """Normalisation error, hubness, and error rates of over- and under-retrieved items.

    Keys, for t2v (items are videos) and v2t (items are texts):

    - ``t2v_error``: mean distance of an item's summed retrieval probability from its fair share,
      in shares (NCL Eq. 5). It depends on the temperature and on the scale of the scores.
    - ``t2v_hubness``: skewness of the number of queries that have an item among their ``k`` best;
      it depends on ranks only.
    - ``t2v_FN_under``, ``t2v_FN_over``: false negative rates, in percent, of the items with less
      and with at least their share; ``t2v_FP_under``, ``t2v_FP_over``: their false positive rates
      (Fig. 3; see :func:`.error_rates_by_mass`). NaN if a group is empty or never retrieved.

    Chance is a constant matrix: error and hubness 0, and the same rates in both groups.

    Args:
        temperature: of the retrieval probabilities; None = the model's.
        k: of the k-occurrence; the whole gallery if that is smaller (hubness is 0 then).

    Raises:
        ValueError: temperature or k that is not positive, or (called) a score that is not finite.
        KeyError: (called) neither the metric nor the model gives a temperature.

    Example:
        Both texts prefer video 0, so video 1 is missed by its own text. ::

            >>> metric = NormalisationMetric(temperature=1.0)
            >>> scores = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
            >>> numbers = metric({'scores': scores}, Relation(torch.eye(2).bool()))
            >>> numbers['t2v_FN_under'], numbers['t2v_FP_over'], round(numbers['t2v_error'], 3)
            (100.0, 50.0, 0.762)
    """

    prefix = 'normalisation'

    def __init__(self, *, temperature: Optional[float] = None, k: int = 10) -> None:
        if temperature is not None:
            check_range('(0, inf]', temperature=temperature)
        check_range('[1, inf]', k=k)
        self.temperature = temperature
        self.k = k

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        temperature = self._temperature(matrices)
        scores = directed(matrices['scores'])
        numbers = {}
        for direction, dim in (('t2v', 1), ('v2t', 0)):
            matrix = getattr(scores, direction)
            options = dict(temperature=temperature, dim=dim)
            occurrence = fn.k_occurrence(matrix, k=min(self.k, matrix.shape[dim]), dim=dim)
            rates = fn.error_rates_by_mass(matrix, relation.positives, edges=(1.0,), **options)
            numbers[f'{direction}_error'] = float(fn.normalisation_error(matrix, **options))
            numbers[f'{direction}_hubness'] = float(fn.skewness(occurrence))
            numbers.update(_named(direction, rates))
        return numbers

    def chance(self, relation: Relation) -> dict[str, float]:
        numbers = {}
        for direction, dim in (('t2v', 1), ('v2t', 0)):
            # One bin: rounding decides on which side of 1 the masses of a constant matrix lie.
            every = fn.error_rates_by_mass(
                constant(relation), relation.positives, temperature=1.0, dim=dim, edges=()
            )
            both = fn.ErrorRates(*(x.expand(2) for x in every))
            numbers.update({f'{direction}_error': 0.0, f'{direction}_hubness': 0.0})
            numbers.update(_named(direction, both))
        return numbers

    def _temperature(self, matrices: Matrices) -> float | Tensor:
        if self.temperature is not None:
            return self.temperature
        if 'temperature' not in matrices:
            raise UnknownKey(
                "NormalisationMetric: the model gives no 'temperature', set "
                'NormalisationMetric(temperature=...)'
            )
        return float(matrices['temperature'])


def _named(direction: str, rates: fn.ErrorRates) -> dict[str, float]:
    groups = ('under', 'over')
    kinds = dict(FN=rates.false_negatives, FP=rates.false_positives)
    return {
        f'{direction}_{kind}_{group}': 100 * float(rate)
        for kind, values in kinds.items()
        for group, rate in zip(groups, values)
    }
