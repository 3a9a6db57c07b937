"""Base class of metrics: from named matrices [T, V] and a relation to named numbers.

Every metric can also give its chance level and its value for perfect semantics, because a number
means little without the two if many captions fit many videos.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import torch
from mmengine.evaluator import BaseMetric, DumpResults, Evaluator
from torch import Tensor
from torch.utils.data import Dataset

from mmvtr.errors import UnknownKey
from mmvtr.functional.metrics.ranks import first_nan
from mmvtr.registry import METRICS, bare_name
from mmvtr.structures import Directed, Relation

#: Named matrices [T, V]; ``'scores'`` may be :class:`Directed`.
Matrices = Mapping[str, Union[Tensor, Directed]]

#: Values of queries by direction, see :meth:`Metric.by_query`.
ByQuery = dict[str, Tensor]

#: Why mmengine's ValLoop and TestLoop cannot use these metrics.
BATCHWISE = (
    '{metric} ranks all videos for each text, and ValLoop and TestLoop hand a metric one batch at '
    "a time; use val_cfg = test_cfg = dict(type='mmvtr.RetrievalLoop')"
)


class Metric(ABC):
    """Base class of the registered metrics; subclasses implement :meth:`measure`.

    Percentages are in percent. ``'scores'`` may be a :class:`~mmvtr.structures.Directed`: numbers
    of keys ``t2v_*`` read its ``t2v``, those of ``v2t_*`` its ``v2t`` (see :func:`directed`).

    Attributes:
        prefix: of its keys in a :class:`Report`.
        reads: names of the matrices it needs.
        needs: fields of the relation that it requires, if its keys vary.
        keys_vary: whether the keys depend on more than which fields of the relation are known.
        raw_alone: whether it measures the raw scores only, never transformed ones.
    """

    prefix: str = 'retrieval'
    reads: Sequence[str] = ('scores',)
    needs: Sequence[str] = ()
    keys_vary: bool = False
    raw_alone: bool = False

    def _refuse_loop(self, value: Any) -> None:
        """Raise TypeError when mmengine's ValLoop or TestLoop is built."""
        raise TypeError(BATCHWISE.format(metric=type(self).__name__))

    #: Attribute that these loops set first.
    dataset_meta = property(None, _refuse_loop)

    def __call__(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        """Check the matrices and measure them.

        Args:
            matrices: float [T, V] by name, higher is better unless the metric says otherwise.
                ``'temperature'`` may be among them, a 0-dim tensor.
            relation: annotations of the set.

        Raises:
            KeyError: a matrix in ``reads`` is missing.
            ValueError: a NaN (names the text and the video), a wrong shape, or the relation lacks
                what the metric needs.
        """
        for name in self.reads:
            if name not in matrices:
                raise UnknownKey(
                    f'{type(self).__name__} reads the matrix {name!r}, the model gives '
                    f'{sorted(matrices)}'
                )
            t2v, v2t = directed(matrices[name])
            check_matrix(name, t2v, relation)
            if v2t is not t2v:
                check_matrix(name, v2t, relation)
        return self.measure(matrices, relation)

    def prepare(self) -> None:  # noqa: B027 - most metrics need nothing
        """Read further inputs of the metric; called once, on all processes."""

    @abstractmethod
    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        """Return the numbers by key, without the prefix."""

    def by_query(self, scores: Union[Tensor, Directed], relation: Relation) -> dict[str, ByQuery]:
        """Return the values of single queries, for those numbers that are means over queries.

        Returns:
            by key of :meth:`measure`: the texts' values, ``'t2v'``, float64 [T], the videos',
            ``'v2t'``, [V], or both.  NaN = the query has none; the means over the others add up to
            the number.
        """
        return {}

    def chance(self, relation: Relation) -> dict[str, float]:
        """Return the expected numbers of a random ranking, with the keys of :meth:`measure`."""
        return {}

    def ceiling(self, relation: Relation) -> dict[str, float]:
        """Return the expected numbers of perfect semantics; empty if the truth is not known."""
        return {}

    def alike(self, relation: Relation) -> dict[str, float]:
        """Return expected numbers of a score that is equal for all true pairs, if the ceiling
        differs from it (paired retrieval); empty if the truth is not known."""
        return {}


class Report(NamedTuple):
    """Results of several metrics, keys ``prefix/name``; chance, ceiling and alike may lack keys.

    ``transformed`` has the values for each test-time transform of the scores, by its name.
    """

    values: dict[str, float]
    chance: dict[str, float]
    ceiling: dict[str, float]
    transformed: Mapping[str, dict[str, float]] = MappingProxyType({})
    alike: Mapping[str, float] = MappingProxyType({})


def reads_scores_alone(metric: Metric) -> bool:
    """Return whether a metric is called again for transformed scores."""
    return set(metric.reads) == {'scores'} and not metric.raw_alone


def directed(scores: Union[Tensor, Directed]) -> Directed:
    """Return one matrix as a pair for both directions; a pair is returned unchanged."""
    return scores if isinstance(scores, Directed) else Directed(scores, scores)


def constant(relation: Relation) -> Tensor:
    """Return a constant score matrix, whose expected metrics are those of chance."""
    zero = torch.zeros(1, device=relation.positives.device)
    return zero.expand(relation.positives.shape)


def evaluate(
    metrics: Sequence[Metric],
    matrices: Matrices,
    relation: Relation,
    transformed: Mapping[str, Directed] = MappingProxyType({}),
) -> Report:
    """Return the report of several metrics; arguments and errors as in :meth:`Metric.__call__`.

    Args:
        metrics, matrices, relation: see :meth:`Metric.__call__`.
        transformed: scores by name of a test-time transform. They never replace the raw ones:
            metrics that read only the scores are called again for each.

    Example:
        ::

            >>> scores = torch.tensor([[.9, .1], [.8, .2]])
            >>> relation = Relation(positives=torch.eye(2).bool())
            >>> report = evaluate([RetrievalMetric()], {'scores': scores}, relation)
            >>> report.values['retrieval/t2v_R1'], report.chance['retrieval/t2v_R1']
            (50.0, 50.0)

    Raises:
        ValueError: two metrics give the same key.
    """
    of_scores = [metric for metric in metrics if reads_scores_alone(metric)]
    return Report(
        _named(metrics, [metric(matrices, relation) for metric in metrics]),
        _named(metrics, [metric.chance(relation) for metric in metrics]),
        _named(metrics, [metric.ceiling(relation) for metric in metrics]),
        {
            name: _named(
                of_scores,
                [metric({**matrices, 'scores': scores}, relation) for metric in of_scores],
            )
            for name, scores in transformed.items()
        },
        _named(metrics, [metric.alike(relation) for metric in metrics]),
    )


def _named(metrics: Sequence[Metric], parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the metrics' numbers in one dict with prefixed keys."""
    collected: dict[str, float] = {}
    for metric, part in zip(metrics, parts):
        named = {f'{metric.prefix}/{key}': float(value) for key, value in part.items()}
        twice = sorted(collected.keys() & named.keys())
        if twice:
            raise ValueError(f'two metrics give {twice}: one of them needs another prefix')
        collected.update(named)
    return collected


def known(relation: Relation, field: str, reader: str) -> Any:
    """Return a field of the relation, or refuse where the dataset does not give it.

    Args:
        reader: name of the metric, for the error.

    Raises:
        ValueError: the field is missing or empty.
    """
    value = getattr(relation, field)
    if value is None or not len(value):
        raise ValueError(
            f'{reader} needs the {field} of the set, which its dataset does not give: leave it out'
        )
    return value


def check_matrix(name: str, matrix: Tensor, relation: Relation) -> None:
    """Raise ValueError if a matrix has another shape than the relation, or a NaN.

    Raises:
        ValueError: names the text and the video.
    """
    expected = relation.positives.shape
    if matrix.shape != expected:
        raise ValueError(f'matrix {name!r} is {list(matrix.shape)}, the relation {list(expected)}')
    place = first_nan(matrix)
    if place is not None:
        text, video = place
        raise ValueError(
            f'{name!r} is NaN for text {_id(relation.text_ids, text)} '
            f'and video {_id(relation.video_ids, video)}'
        )


def _id(ids: Sequence[str], index: int) -> str:
    return repr(ids[index]) if len(ids) else f'number {index}'


Listed = Union[Metric, BaseMetric, Mapping[str, Any]]


class OfMMEngine(Metric):
    """Adapter that runs a mmengine ``BaseMetric`` over the rows of a score matrix.

    ``process(None, samples)`` gets one dict a text: ``text_id``, ``pred_score`` (float32 [V], of
    all videos), ``gt_label`` (int64 [P], the columns of its videos) and ``sample_idx`` (its row).
    The keys of its numbers begin with its prefix, or else with the name of its class.

    Args:
        metric: of mmengine.
        meta: the ``dataset_meta`` of the metric.
    """

    keys_vary = True

    def __init__(self, metric: BaseMetric, meta: Optional[dict[str, Any]] = None) -> None:
        self.metric = metric
        metric.dataset_meta = meta
        self.prefix = metric.prefix or type(metric).__name__
        self.raw_alone = isinstance(metric, DumpResults)  # one file: a transform would replace it

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        """See :class:`Metric`; the metric's results are cleared before and after."""
        self.metric.results.clear()
        for sample in samples_of(matrices, relation):
            self.metric.process(None, [sample])
        numbers = self.metric.compute_metrics(self.metric.results)
        self.metric.results.clear()
        return numbers


def samples_of(matrices: Matrices, relation: Relation) -> Iterator[dict[str, Any]]:
    """Yield the data sample of each text that :class:`OfMMEngine` passes to the metric."""
    scores = directed(matrices['scores']).t2v
    for row, matches in enumerate(relation.positives):
        yield dict(
            text_id=relation.text_ids[row] if len(relation.text_ids) else str(row),
            sample_idx=row,
            pred_score=scores[row].clone(),
            gt_label=matches.nonzero()[:, 0],
        )


def listed_metrics(evaluator: Union[None, Listed, Evaluator, Sequence[Listed]]) -> list[Listed]:
    """Return the metrics of an evaluator as they are given, see :func:`metrics_of`."""
    if isinstance(evaluator, Evaluator):
        evaluator = evaluator.metrics
    if isinstance(evaluator, Mapping) and bare_name(evaluator) in ('Evaluator', ''):
        evaluator = evaluator['metrics']
    if isinstance(evaluator, (list, tuple)):
        return list(evaluator)
    return [] if evaluator is None else [evaluator]


def metrics_of(
    evaluator: Union[Listed, Evaluator, Sequence[Listed]], dataset: Optional[Dataset] = None
) -> list[Metric]:
    """Return the metrics of an evaluator's config, mmengine's own as :class:`OfMMEngine`.

    Args:
        evaluator: a metric, several, or an ``Evaluator`` of metrics; built or configs.
        dataset: the evaluated dataset.
    """
    listed = listed_metrics(evaluator)
    built = [METRICS.build(x) if isinstance(x, dict) else x for x in listed]
    meta = getattr(dataset, 'metainfo', None)
    return [OfMMEngine(x, meta) if isinstance(x, BaseMetric) else x for x in built]
