"""Retrieval against graded relevance, measured as the benchmark of EPIC-KITCHENS-100 does."""

from __future__ import annotations

from typing import Callable, Literal, Sequence, Union

from torch import Tensor

from mmvtr.evaluation.metric import ByQuery, Matrices, Metric, directed, known
from mmvtr.functional.metrics.graded_relevance import (
    Depth,
    Graded,
    check_depth,
    graded_chance,
    graded_values,
    mean_over_queries,
)
from mmvtr.functional.values import check_one_of
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation

#: Measures, and the fields of :class:`.Graded` that hold them.
MEASURES = dict(nDCG='ndcg', epic_mAP='epic_ap', mAP='ap')


@METRICS.register_module()
class RelevanceMetric(Metric):
    """nDCG, EPIC's mAP and standard mAP of ``Relation.relevance``, in both directions.

    Keys ``t2v_nDCG``, ``v2t_nDCG`` and ``avg_nDCG`` (their mean), in percent, and the same three
    for ``epic_mAP`` and ``mAP``. With another depth nDCG is called ``nDCG50`` or ``nDCG_full``.
    ``epic_mAP`` is what EPIC-KITCHENS-100 and papers on it call mAP; it sums graded relevance and
    is higher than ``mAP``, see :class:`~mmvtr.functional.metrics.graded_relevance.Graded`.

    Ties get their expected value, chance is the exact expectation of a random order, and the
    ceiling scores each pair by its relevance.

    Args:
        measures: some of 'nDCG', 'epic_mAP' and 'mAP'.
        k: depth of nDCG: 'relevant' = as many places as the query has candidates of relevance > 0
            (EPIC-KITCHENS-100), a number, or None = all places.
        without_match: queries without a relevant candidate (for the two mAP: of relevance 1) are
            'left_out', or count as 'zero'.

    Raises:
        ValueError: an unknown measure or option, k below 1; or (called) the relevance of the set is
            not known, or no query has a match.

    Example:
        Text 0 has a half relevant video above its own. ::

            >>> relevance = torch.tensor([[1., .5], [0., 1.]])
            >>> metric = RelevanceMetric(measures=('epic_mAP', 'mAP'))
            >>> relation = Relation(torch.eye(2).bool(), relevance=relevance)
            >>> numbers = metric({'scores': torch.tensor([[.8, .9], [.1, .2]])}, relation)
            >>> numbers['t2v_epic_mAP'], numbers['t2v_mAP']  # (1.5 / 2 + 1) / 2, (1 / 2 + 1) / 2
            (87.5, 75.0)
    """

    prefix = 'relevance'

    def __init__(
        self,
        *,
        measures: Sequence[str] = tuple(MEASURES),
        k: Depth = 'relevant',
        without_match: Literal['left_out', 'zero'] = 'left_out',
    ) -> None:
        if set(measures) - MEASURES.keys() or not measures:
            raise ValueError(f'measures must be some of {list(MEASURES)}, not {measures}')
        check_one_of(('left_out', 'zero'), without_match=without_match)
        check_depth(k)
        self.measures = tuple(measures)
        self.k = k
        self.without_match = without_match

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        relevance, scores = (
            known(relation, 'relevance', 'RelevanceMetric'),
            directed(matrices['scores']),
        )
        return self._numbers(
            lambda direction, dim: graded_values(
                getattr(scores, direction), relevance, k=self.k, dim=dim
            )
        )

    def chance(self, relation: Relation) -> dict[str, float]:
        relevance = known(relation, 'relevance', 'RelevanceMetric')
        return self._numbers(lambda _, dim: graded_chance(relevance, k=self.k, dim=dim))

    def ceiling(self, relation: Relation) -> dict[str, float]:
        relevance = known(relation, 'relevance', 'RelevanceMetric')
        return self._numbers(lambda _, dim: _perfect(relevance, dim))

    def by_query(self, scores: Union[Tensor, Directed], relation: Relation) -> dict[str, ByQuery]:
        relevance, sides = known(relation, 'relevance', 'RelevanceMetric'), directed(scores)
        graded = {
            side: graded_values(getattr(sides, side), relevance, k=self.k, dim=dim)
            for side, dim in (('t2v', 1), ('v2t', 0))
        }
        by_key: dict[str, ByQuery] = {}
        for measure in self.measures:
            both = {side: self._known(getattr(x, MEASURES[measure])) for side, x in graded.items()}
            name = self._named(measure)
            by_key.update({f'{side}_{name}': {side: values} for side, values in both.items()})
            by_key[f'avg_{name}'] = {side: values / 2 for side, values in both.items()}
        return by_key

    def _known(self, values: Tensor) -> Tensor:
        """Return values of queries in percent, float64; of those without a match NaN, or 0."""
        values = 100 * values.double().cpu()
        return values if self.without_match == 'left_out' else values.nan_to_num(0.0)

    def _numbers(self, values: Callable[[str, int], Graded]) -> dict[str, float]:
        """Return ``values(direction, dim)`` by metric key."""
        numbers = {}
        graded = dict(t2v=values('t2v', 1), v2t=values('v2t', 0))
        for measure in self.measures:
            for direction, of_queries in graded.items():
                value = mean_over_queries(
                    getattr(of_queries, MEASURES[measure]), without_match=self.without_match
                )
                if value.isnan():
                    raise ValueError(
                        f'no query of {direction} has a match to measure {measure} by: leave it '
                        f'out, RelevanceMetric(measures=...)'
                    )
                numbers[f'{direction}_{self._named(measure)}'] = 100 * float(value)
        for name in map(self._named, self.measures):
            numbers[f'avg_{name}'] = (numbers[f't2v_{name}'] + numbers[f'v2t_{name}']) / 2
        return numbers

    def _named(self, measure: str) -> str:
        if measure != 'nDCG' or self.k == 'relevant':
            return measure
        return 'nDCG_full' if self.k is None else f'nDCG{self.k}'


def _perfect(relevance: Tensor, dim: int) -> Graded:
    """Return the measures of the relevance as the score (1 if there is a match), unsorted."""
    relevant, hit = (
        match.any(dim).double().masked_fill(~match.any(dim), float('nan'))
        for match in (relevance > 0, relevance == 1)
    )
    return Graded(relevant, hit, hit)
