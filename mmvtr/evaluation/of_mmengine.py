"""mmengine's own metrics beside ours: ``DumpResults`` and whatever else is a ``BaseMetric``.

Such a metric is shown one sample for each text, as mmpretrain's and mmaction2's retrieval metrics
read it.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from mmengine.evaluator import BaseMetric, DumpResults, Evaluator
from torch.utils.data import Dataset

from mmvtr.evaluation.metric import Matrices, Metric, directed
from mmvtr.registry import METRICS, bare_name
from mmvtr.structures import Relation

Listed = Union[Metric, BaseMetric, Mapping[str, Any]]


class OfMMEngine(Metric):
    """Adapter that runs a mmengine ``BaseMetric`` over the rows of a score matrix.

    ``process(None, samples)`` gets one dict a text: ``text_id``, ``pred_score`` (float32 [V], of
    all videos), ``gt_label`` (int64 [P], the columns of its videos) and ``sample_idx`` (its row).
    The keys of its numbers begin with its prefix, or else with the name of its class.

    Args:
        metric: of mmengine.
        meta: what the metric may read as ``dataset_meta``.
    """

    keys_vary = True

    def __init__(self, metric: BaseMetric, meta: Optional[dict[str, Any]] = None) -> None:
        self.metric = metric
        metric.dataset_meta = meta
        self.prefix = metric.prefix or type(metric).__name__
        self.raw_alone = isinstance(metric, DumpResults)  # one file: a transform would replace it

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        """See :class:`Metric`; the metric starts anew each time."""
        self.metric.results.clear()
        for sample in samples_of(matrices, relation):
            self.metric.process(None, [sample])
        numbers = self.metric.compute_metrics(self.metric.results)
        self.metric.results.clear()
        return numbers


def samples_of(matrices: Matrices, relation: Relation) -> Iterator[dict[str, Any]]:
    """Yield the data sample of each text that :class:`OfMMEngine` passes to the metric."""
    scores = directed(matrices['scores']).t2v
    for row, own in enumerate(relation.positives):
        yield dict(
            text_id=relation.text_ids[row] if len(relation.text_ids) else str(row),
            sample_idx=row,
            pred_score=scores[row].clone(),
            gt_label=own.nonzero()[:, 0],
        )


def metrics_of(
    evaluator: Union[Listed, Evaluator, Sequence[Listed]], dataset: Optional[Dataset] = None
) -> list[Metric]:
    """Return the metrics of an evaluator's config, mmengine's own as :class:`OfMMEngine`.

    Args:
        evaluator: a metric, several, or an ``Evaluator`` of such; built or configs.
        dataset: of the evaluation.
    """
    if isinstance(evaluator, Evaluator):
        evaluator = evaluator.metrics
    if isinstance(evaluator, Mapping) and bare_name(evaluator) in ('Evaluator', ''):
        evaluator = evaluator['metrics']
    listed = evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]
    built = [METRICS.build(one) if isinstance(one, dict) else one for one in listed]
    meta = getattr(dataset, 'metainfo', None)
    return [OfMMEngine(one, meta) if isinstance(one, BaseMetric) else one for one in built]
