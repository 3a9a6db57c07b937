"""Retrieval of everything that truly fits, annotated or not.

Paired recall punishes a model for a correct video that nobody annotated; these numbers do not.
"""

from __future__ import annotations

from typing import Mapping, Sequence, Union

from torch import Tensor

from mmvtr.evaluation.metric import Matrices, Metric, constant, directed
from mmvtr.functional.metrics.relevance import average_precision, ndcg_at_k, precision_at_1
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation

#: Measures, and the field of the relation that each needs.
NEEDS = dict(P1='truth', mAP='truth', nDCG='relevance')


@METRICS.register_module()
class SemanticMetric(Metric):
    """Precision@1, mAP and nDCG@K against the full known truth, in both directions.

    Keys ``t2v_P1``, ``t2v_mAP``, ``t2v_nDCG50`` and the same for v2t, in percent. Queries without a
    true match are left out; ties get their expected value. Chance is the value of a constant
    matrix, the ceiling that of the truth (of the relevance, for nDCG) taken as the score.

    Args:
        measures: some of ``'P1'`` and ``'mAP'``, which need ``Relation.truth``, and ``'nDCG'``,
            which needs ``Relation.relevance``.
        k: depth of nDCG.

    Raises:
        ValueError: an unknown measure, or (called) the relation lacks what a measure needs.

    Example:
        Text 1 holds for both videos, so its first one is right. ::

            >>> truth = torch.tensor([[1, 0], [1, 1]]).bool()
            >>> relation = Relation(torch.eye(2).bool(), truth=truth)
            >>> metric = SemanticMetric(measures=('P1',))
            >>> metric({'scores': torch.tensor([[.9, .1], [.8, .2]])}, relation)
            {'t2v_P1': 100.0, 'v2t_P1': 100.0}
    """

    prefix = 'semantic'

    def __init__(self, *, measures: Sequence[str] = ('P1', 'mAP', 'nDCG'), k: int = 50) -> None:
        unknown = set(measures) - NEEDS.keys()
        if unknown or not measures:
            raise ValueError(f'measures: some of {list(NEEDS)}, not {measures}')
        self.measures = tuple(measures)
        self.k = k

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        return self._numbers(dict.fromkeys(NEEDS.values(), matrices['scores']), relation)

    def chance(self, relation: Relation) -> dict[str, float]:
        return self._numbers(dict.fromkeys(NEEDS.values(), constant(relation)), relation)

    def ceiling(self, relation: Relation) -> dict[str, float]:
        known = {name: getattr(relation, name) for name in NEEDS.values()}
        scores = {name: target.float() for name, target in known.items() if target is not None}
        return self._numbers(scores, relation)

    def _numbers(
        self, scores: Mapping[str, Union[Tensor, Directed]], relation: Relation
    ) -> dict[str, float]:
        """``scores`` by the field of the relation that they are compared with."""
        functions = dict(P1=precision_at_1, mAP=average_precision, nDCG=self._ndcg)
        numbers = {}
        for direction, dim in (('t2v', 1), ('v2t', 0)):
            for name in self.measures:
                target = getattr(relation, NEEDS[name])
                if target is None:
                    raise ValueError(
                        f'{name} needs the {NEEDS[name]} of the set, which its dataset does not '
                        f'give: leave it out, e.g. SemanticMetric(measures=...)'
                    )
                matrix = getattr(directed(scores[NEEDS[name]]), direction)
                value = functions[name](matrix, target, dim=dim).nanmean()
                key = f'{direction}_{name}' + (str(self.k) if name == 'nDCG' else '')
                numbers[key] = 100 * float(value)
        return numbers

    def _ndcg(self, scores: Tensor, relevance: Tensor, *, dim: int) -> Tensor:
        return ndcg_at_k(scores, relevance, k=self.k, dim=dim)
