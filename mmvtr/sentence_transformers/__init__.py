"""Losses, a guide, a bank and an evaluator for sentence-transformers' own trainer.

Needs the extra ``[sentence-transformers]``.  The maths is in :mod:`mmvtr.functional`, the
supervisions in :mod:`mmvtr.models`: this package has the classes that sentence-transformers needs.
"""

from mmvtr.models.supervisions.guide import GuideSupervision
from mmvtr.sentence_transformers.callback import LossCallback
from mmvtr.sentence_transformers.contrastive import DebiasedContrastiveLoss
from mmvtr.sentence_transformers.evaluator import DebiasedEvaluator
from mmvtr.sentence_transformers.labels import pairs_dataset, with_labels
from mmvtr.sentence_transformers.normalized import NormalizedContrastiveLoss

__all__ = [
    'DebiasedContrastiveLoss',
    'DebiasedEvaluator',
    'GuideSupervision',
    'LossCallback',
    'NormalizedContrastiveLoss',
    'pairs_dataset',
    'with_labels',
]
