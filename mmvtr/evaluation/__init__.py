"""Metrics over score matrices [T, V] and what is known of the set; no metric knows a model."""

from mmvtr.evaluation.metric import Metric, Report, evaluate
from mmvtr.evaluation.retrieval import RetrievalMetric
from mmvtr.evaluation.semantic import SemanticMetric
from mmvtr.evaluation.soft_positive import SoftPositiveMetric
from mmvtr.evaluation.table import protocol_line, results_table

__all__ = [
    'Metric',
    'Report',
    'RetrievalMetric',
    'SemanticMetric',
    'SoftPositiveMetric',
    'evaluate',
    'protocol_line',
    'results_table',
]
