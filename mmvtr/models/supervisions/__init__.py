"""Supervisions, which fill a target's slots: positives, weights, margins, teachers ..."""

from mmvtr.models.supervisions.adaptive_margin import AdaptiveMarginSupervision
from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.models.supervisions.belief import Belief
from mmvtr.models.supervisions.cmgsd import CMGSDSupervision
from mmvtr.models.supervisions.cross_fitted import CrossFittedBelief
from mmvtr.models.supervisions.dvtr import DVTRSupervision, LiteralDVTRSupervision
from mmvtr.models.supervisions.hubs import HubSupervision
from mmvtr.models.supervisions.implication import ImplicationSupervision
from mmvtr.models.supervisions.negatives import (
    ColumnSupervision,
    GuideSupervision,
    HardnessSupervision,
)
from mmvtr.models.supervisions.oracle import OracleSupervision
from mmvtr.models.supervisions.pcme import PCMESupervision
from mmvtr.models.supervisions.ran import RelevanceSupervision
from mmvtr.models.supervisions.relative_scores import RelativeScoreSupervision
from mmvtr.models.supervisions.teachers import (
    FrozenTeachers,
    RelevanceTeacher,
    StoredFrameTeacher,
    StoredTeachers,
)

__all__ = [
    'ARLSupervision',
    'AdaptiveMarginSupervision',
    'Belief',
    'CMGSDSupervision',
    'ColumnSupervision',
    'CrossFittedBelief',
    'DVTRSupervision',
    'FrozenTeachers',
    'GuideSupervision',
    'HardnessSupervision',
    'HubSupervision',
    'ImplicationSupervision',
    'LiteralDVTRSupervision',
    'OracleSupervision',
    'PCMESupervision',
    'RelativeScoreSupervision',
    'RelevanceSupervision',
    'RelevanceTeacher',
    'StoredFrameTeacher',
    'StoredTeachers',
]
