"""Retrieval of untrimmed videos by the share of the video that a text describes."""

from __future__ import annotations

from typing import Callable, Iterator, Sequence

from torch import Tensor

from mmvtr.evaluation.metric import Matrices, Metric, directed
from mmvtr.evaluation.retrieval import RetrievalMetric
from mmvtr.registry import METRICS
from mmvtr.structures import Relation


@METRICS.register_module()
class MomentRatioMetric(Metric):
    """SumR of texts grouped by the moment-to-video length ratio, as MS-SL reports it.

    A shorter moment is harder to find. Keys, for each bucket (low, high] that has texts:
    ``t2v_SumR_<low>-<high>``, the sum of their R@K among all videos, and
    ``t2v_share_<low>-<high>``, their percentage of the texts with a known ratio. There are no keys
    if no ratio is known.

    Args:
        edges: inner borders of the buckets, increasing; the outer ones are 0 and 1.
        recall_at: the K of R@K.

    Raises:
        ValueError: edges outside (0, 1) or not increasing.

    Example:
        Text 0 describes a tenth of its video and finds it, text 1 describes a half and does not. ::

            >>> relation = Relation(torch.eye(2).bool(), moment_ratio=torch.tensor([0.1, 0.5]))
            >>> metric = MomentRatioMetric(edges=(0.2,), recall_at=(1,))
            >>> numbers = metric({'scores': torch.tensor([[0.9, 0.1], [0.8, 0.2]])}, relation)
            >>> numbers['t2v_SumR_0-0.2'], numbers['t2v_SumR_0.2-1'], numbers['t2v_share_0.2-1']
            (100.0, 0.0, 50.0)
    """

    prefix = 'moment_ratio'
    keys_vary = True  # only non-empty buckets have keys

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
        """Yield name, texts (int64 [n], n > 0) and percentage of each non-empty ratio bucket."""
        ratio = relation.moment_ratio
        if ratio is None:
            return
        answerable = relation.positives.any(1)
        count = (~ratio.isnan() & answerable).sum()
        for low, high in zip(self.edges, self.edges[1:]):
            texts = ((ratio > low) & (ratio <= high) & answerable).nonzero().flatten()
            if len(texts):
                yield f'{low:g}-{high:g}', texts, float(100 * len(texts) / count)
