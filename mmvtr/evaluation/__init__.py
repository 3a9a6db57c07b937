"""Metrics over score matrices [T, V] and a set's annotations; no metric knows a model."""

from mmvtr.evaluation.graded import RelevanceMetric
from mmvtr.evaluation.judged import JudgedMetric
from mmvtr.evaluation.length_bias import LengthBiasMetric
from mmvtr.evaluation.metric import Metric, Report, directed, evaluate
from mmvtr.evaluation.moment_ratio import MomentRatioMetric
from mmvtr.evaluation.normalisation import NormalisationMetric
from mmvtr.evaluation.retrieval import RetrievalMetric, SemanticMetric
from mmvtr.evaluation.soft_positive import SoftPositiveMetric
from mmvtr.evaluation.table import protocol_line, results_table, transforms_table
from mmvtr.evaluation.uncertainty import GeneralCaptionMetric, UncertaintyMetric
from mmvtr.registry import own_names

__all__ = own_names(globals())
