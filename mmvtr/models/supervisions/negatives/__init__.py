"""Supervisions of negatives: which are none, how hard each is pushed, and further ones."""

from mmvtr.models.supervisions.negatives.columns import ColumnSupervision
from mmvtr.models.supervisions.negatives.guide import GuideSupervision
from mmvtr.models.supervisions.negatives.hardness import HardnessSupervision

__all__ = ['ColumnSupervision', 'GuideSupervision', 'HardnessSupervision']
