"""Retrieval metrics over human judgments, which also cover pairs that were not annotated."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor

from mmvtr import functional as fn
from mmvtr.datasets.pair_values import Judgments, PairValues
from mmvtr.evaluation.metric import ByQuery, Matrices, Metric, constant, directed
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation


@METRICS.register_module()
class JudgedMetric(Metric):
    """Metrics over judged pairs, in both directions; queries without a judged pair are left out.

    A judged pair is right if its grade is at least ``at_least``, else wrong. An annotated pair
    without a judgment is right. Keys in percent, with the prefixes ``t2v_`` and ``v2t_``:

    - ``P1``, ``P5``, ...: share of the first k places that is right; unjudged ones count as wrong.
    - ``P1_known``, ...: share of the right pairs among the judged ones in the first k places, over
      all queries together; unjudged ones are left out.
    - ``share1``, ...: share of the first k places that is judged. If it is low, the other numbers
      are unreliable.
    - ``bpref``: see :func:`~mmvtr.functional.bpref`.
    - ``AP``: average precision of the list without unjudged candidates.
    - ``extra_AP``, ``extra_R_precision``: of the list without annotated candidates too, whose right
      ones were not annotated; over the queries that have any.
    - ``mAP_R``, ``R_precision``: :func:`~mmvtr.functional.map_at_r` and
      :func:`~mmvtr.functional.r_precision` of the whole list; unjudged candidates count as wrong
      (ECCV Caption).

    And numbers of queries: ``queries``, those with a judged pair, and ``extra_queries``, those with
    a right pair that was not annotated. Ties get their expected value; ``P_known`` is the ratio of
    two expectations. Chance is the value of a constant matrix; the ceiling scores right pairs 1 and
    others 0, and leaves out ``share``.

    Args:
        judgments: config of a reader (``dict(type='read_qrels', path=...)``) or its result; a dict
            of 't2v' and 'v2t' if the two directions were judged separately; None = the
            ``judgments`` of the dataset.
        at_least: the lowest grade that counts as right (Flickr8k's crowd: above .5; its experts and
            Crisscrossed Captions: 3).
        k: places.

    Raises:
        ValueError: k below 1; or (called) no judged pair is in the set, or neither metric nor
            dataset has judgments.

    Example:
        The first video of text 0 is right though not annotated. ::

            >>> pairs = PairValues(['t', 't'], ['b', 'a'], torch.ones(2).double().numpy())
            >>> positives = torch.tensor([[1, 0]]).bool()
            >>> relation = Relation(positives, text_ids=['t'], video_ids=['a', 'b'])
            >>> scores = torch.tensor([[.1, .9]])
            >>> numbers = JudgedMetric(pairs, k=(1,))({'scores': scores}, relation)
            >>> numbers['t2v_P1'], numbers['t2v_extra_queries']
            (100.0, 1.0)
    """

    prefix = 'judged'
    keys_vary = True  # they depend on what was judged

    def __init__(
        self,
        judgments: Union[Mapping[str, Any], PairValues, None] = None,
        *,
        at_least: float = 1.0,
        k: Sequence[int] = (1, 5, 10),
    ) -> None:
        if not k or min(k) < 1:
            raise ValueError(f'k must be places from 1 on, not {k}')
        self.judgments = judgments
        self.at_least = at_least
        self.k = tuple(k)
        self.needs = ('judgments',) if judgments is None else ()
        self.pairs: Optional[Judgments] = None

    def prepare(self) -> None:
        """Read the judgments."""
        if self.judgments is not None and self.pairs is None:
            self.pairs = Judgments.of(self.judgments)

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        return self._numbers(directed(matrices['scores']), relation, self._known(relation))

    def chance(self, relation: Relation) -> dict[str, float]:
        judgments = self._known(relation)
        numbers = self._numbers(directed(constant(relation)), relation, judgments)
        return {key: x for key, x in numbers.items() if 'queries' not in key}

    def ceiling(self, relation: Relation) -> dict[str, float]:
        judgments = self._known(relation)
        perfect = Directed(*(of_side.right.float() for of_side in judgments))
        numbers = self._numbers(perfect, relation, judgments)
        return {key: x for key, x in numbers.items() if not re.search('queries|share', key)}

    def _known(self, relation: Relation) -> Directed:
        """Return each direction's judged queries, and its right and known pairs, bool [T, V]."""
        by_side = {}
        for (name, dim), grades in zip((('t2v', 1), ('v2t', 0)), self._grades(relation)):
            judged = ~grades.isnan()
            annotated = relation.positives & ~judged
            right = (grades >= self.at_least) | annotated
            by_side[name] = _Known(judged.any(dim), right, judged | annotated)
        return Directed(by_side['t2v'], by_side['v2t'])

    def _grades(self, relation: Relation) -> Directed:
        """Return the metric's own judgments, or those of the dataset."""
        self.prepare()
        grades = relation.judgments
        if self.pairs is not None:
            ids = relation.text_ids, relation.video_ids
            grades = Directed(*map(torch.as_tensor, self.pairs.grades(*ids)))
        if grades is None:
            raise ValueError(
                'no judgments: give the dataset or the metric judgments=dict(type=READER, path=...)'
            )
        return Directed(*(x.to(relation.positives.device) for x in grades))

    def _numbers(self, scores: Directed, relation: Relation, judged: Directed) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for name, *rows in self._rows(scores, relation, judged):
            of_direction = self._of_queries(*rows)
            numbers.update({f'{name}_{key}': value for key, value in of_direction.items()})
        return numbers

    def by_query(self, scores: Union[Tensor, Directed], relation: Relation) -> dict[str, ByQuery]:
        """See :class:`Metric`; without ``P_known``, which is defined over all queries."""
        by_key, judgments = {}, self._known(relation)
        for name, *rows in self._rows(directed(scores), relation, judgments):
            answerable = getattr(judgments, name).asked
            for key, values in self._values(*rows).items():
                whole = torch.full(answerable.shape, torch.nan, dtype=torch.float64)
                whole[answerable.cpu()] = 100 * values.double().cpu()
                by_key[f'{name}_{key}'] = {name: whole}
        return by_key

    def _rows(
        self, scores: Directed, relation: Relation, judgments: Directed
    ) -> Iterator[tuple[str, Tensor, Tensor, Tensor, Tensor]]:
        """Yield the inputs of :meth:`_values` for each direction, one row a judged query."""
        for name, dim in (('t2v', 1), ('v2t', 0)):
            answerable, right, judged = getattr(judgments, name)
            matrices = (getattr(scores, name), right, judged, relation.positives)
            yield name, *((x if dim == 1 else x.t())[answerable] for x in matrices)

    def _values(
        self, scores: Tensor, right: Tensor, judged: Tensor, annotated: Tensor
    ) -> dict[str, Tensor]:
        """Return measures, float64 [Q] by key, of matrices [Q, C]."""
        values = {}
        for k in self.k:
            values[f'P{k}'] = fn.precision_at(scores, right, k)
            values[f'share{k}'] = fn.precision_at(scores, judged, k)
        rest = fn.condensed(scores, judged & ~annotated)
        extra = right & ~annotated
        values.update(
            bpref=fn.bpref(scores, right, judged),
            AP=fn.average_precision(fn.condensed(scores, judged), right),
            mAP_R=fn.map_at_r(scores, right),
            R_precision=fn.r_precision(scores, right),
            extra_AP=fn.average_precision(rest, extra),
            extra_R_precision=fn.r_precision(rest, extra),
        )
        return values

    def _of_queries(
        self, scores: Tensor, right: Tensor, judged: Tensor, annotated: Tensor
    ) -> dict[str, float]:
        """Return the means over queries, in percent, and their numbers; all matrices are [Q, C]."""
        values = self._values(scores, right, judged, annotated)
        numbers = {key: x.nanmean() for key, x in values.items()}
        for k in self.k:
            numbers[f'P{k}_known'] = numbers[f'P{k}'] / numbers[f'share{k}']
        extra = (right & ~annotated).any(1).sum()
        # a measure that no query has (nothing judged among the first k, no extra pair) has no key
        percent = {key: 100 * float(x) for key, x in numbers.items() if not x.isnan()}
        return {**percent, 'queries': float(len(scores)), 'extra_queries': float(extra)}


class _Known(NamedTuple):
    """One direction: queries that have judgments, bool [T] or [V]; right pairs and known pairs,
    bool [T, V]."""

    asked: Tensor
    right: Tensor
    judged: Tensor
