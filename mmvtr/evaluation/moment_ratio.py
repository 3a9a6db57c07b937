"""Metrics of untrimmed videos: by how much of its video a text tells of, and highlights."""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from mmvtr.evaluation.metric import Matrices, Metric, directed
from mmvtr.evaluation.retrieval import RetrievalMetric
from mmvtr.functional.metrics.highlights import interpolated_precision
from mmvtr.registry import METRICS
from mmvtr.structures import Relation


@METRICS.register_module()
class MomentRatioMetric(Metric):
    """SumR of texts grouped by the moment-to-video length ratio, as MS-SL reports it.

    A short moment is harder to find. Keys, for each bucket (low, high] that has texts:
    ``t2v_SumR_<low>-<high>``, the sum of their R@K among all videos, and
    ``t2v_share_<low>-<high>``, their percentage of the texts whose ratio is known. No keys where
    none is known.

    Args:
        edges: between the buckets, increasing; the outer ones are 0 and 1.
        recall_at: the K of R@K.

    Raises:
        ValueError: edges outside (0, 1) or not increasing.

    Example:
        Text 0 tells of a tenth of its video and finds it, text 1 of a half and does not. ::

            >>> relation = Relation(torch.eye(2).bool(), moment_ratio=torch.tensor([0.1, 0.5]))
            >>> metric = MomentRatioMetric(edges=(0.2,), recall_at=(1,))
            >>> numbers = metric({'scores': torch.tensor([[0.9, 0.1], [0.8, 0.2]])}, relation)
            >>> numbers['t2v_SumR_0-0.2'], numbers['t2v_SumR_0.2-1'], numbers['t2v_share_0.2-1']
            (100.0, 0.0, 50.0)
    """

    prefix = 'moment_ratio'
    keys_vary = True  # buckets that some texts fall into

    def __init__(
        self, *, edges: Sequence[float] = (0.2, 0.4), recall_at: Sequence[int] = (1, 5, 10, 100)
    ) -> None:
        self.edges = (0, *edges, 1)
        if any(low >= high for low, high in zip(self.edges, self.edges[1:])):
            raise ValueError(f'edges must increase between 0 and 1, got {tuple(edges)}')
        self.retrieval = RetrievalMetric(recall_at=recall_at, v2t_protocols=())

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        scores = directed(matrices['scores']).t2v
        return self._numbers(
            relation,
            lambda texts, part: self.retrieval.measure({'scores': scores[texts]}, part),
        )

    def chance(self, relation: Relation) -> dict[str, float]:
        return self._numbers(relation, lambda texts, part: self.retrieval.chance(part))

    def ceiling(self, relation: Relation) -> dict[str, float]:
        if relation.truth is None:
            return {}
        return self._numbers(relation, lambda texts, part: self.retrieval.ceiling(part))

    def _numbers(
        self, relation: Relation, retrieve: Callable[[Tensor, Relation], dict[str, float]]
    ) -> dict[str, float]:
        numbers = {}
        for name, texts, share in self._buckets(relation):
            part = Relation(
                relation.positives[texts], None if relation.truth is None else relation.truth[texts]
            )
            numbers[f't2v_SumR_{name}'] = retrieve(texts, part)['t2v_SumR']
            numbers[f't2v_share_{name}'] = share
        return numbers

    def _buckets(self, relation: Relation) -> Iterator[tuple[str, Tensor, float]]:
        """Return name, texts (int64 [n], n > 0) and percentage of each non-empty ratio bucket."""
        ratio = relation.moment_ratio
        if ratio is None:
            return
        answerable = relation.positives.any(1)
        known = (~ratio.isnan() & answerable).sum()
        for low, high in zip(self.edges, self.edges[1:]):
            texts = ((ratio > low) & (ratio <= high) & answerable).nonzero().flatten()
            if len(texts):
                yield f'{low:g}-{high:g}', texts, float(100 * len(texts) / known)


#: Least grade that counts as a highlight, by the name that it has in the papers.
LEVELS = dict(fair=2, good=3, very_good=4)


def highlight_figures(
    scores: Mapping[str, Sequence[float]], grades: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, float]:
    """mAP and HIT@1 of highlights, in percent, at each least grade (Moment-DETR's evaluation).

    Each person's highlights are those that they gave the least grade or more.  mAP is the mean of
    :func:`~mmvtr.functional.metrics.highlights.interpolated_precision` over people and queries;
    a person without highlights counts 0.  HIT@1 is the percentage of queries whose first part is a
    highlight of somebody; of parts with the highest score the earliest is first.  Papers print
    ``very_good``.

    As there, parts that have no score have 0, and scores of parts that nobody could grade do not
    count, but for HIT@1, where such a first part is wrong.

    Args:
        scores: of the parts of the query's video in their order, by query.
        grades: int [C, P] by query, as of :func:`~mmvtr.datasets.highlights.read_highlights`.

    Returns:
        ``<level>_map`` and ``<level>_hit1`` for the levels of :data:`LEVELS`.

    Raises:
        ValueError: no queries, queries of one that the other lacks, no scores, a NaN.
    """
    if not grades or scores.keys() != grades.keys():
        few = sorted(map(str, scores.keys() ^ grades.keys()))[:5]
        raise ValueError(f'scores of each graded query and of no other expected; not so: {few}')
    found: dict[str, list[Tensor]] = {}
    for query, rated in grades.items():
        given = torch.as_tensor(scores[query], dtype=torch.float64)
        if given.ndim != 1 or not len(given):
            raise ValueError(f'query {query!r}: one score a part expected')
        if given.isnan().any():
            raise ValueError(f'query {query!r}: a score is NaN')
        for name, value in _of_query(given, torch.as_tensor(rated)).items():
            found.setdefault(name, []).append(value)
    return {name: 100 * float(torch.stack(values).mean()) for name, values in found.items()}


def _of_query(given: Tensor, rated: Tensor) -> dict[str, Tensor]:
    fitted = given.new_zeros(len(rated))
    both = min(len(given), len(rated))
    fitted[:both] = given[:both]
    first, found = int(given.argmax()), {}
    for name, least in LEVELS.items():
        good = rated >= least
        each = [interpolated_precision(fitted, good[:, person]) for person in range(good.shape[1])]
        found[f'{name}_map'] = torch.stack(each).mean()
        hit = first < len(rated) and bool(good[first].any())
        found[f'{name}_hit1'] = given.new_tensor(float(hit))
    return found
