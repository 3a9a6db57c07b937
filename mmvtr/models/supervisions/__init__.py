"""Supervisions, which fill a target's slots: positives, weights, margins, teachers ..."""

from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.models.supervisions.cmgsd import AdaptiveMarginSupervision, CMGSDSupervision
from mmvtr.models.supervisions.columns import ColumnSupervision
from mmvtr.models.supervisions.cross_fitted import CrossFittedTeachers
from mmvtr.models.supervisions.dvtr import DVTRSupervision, LiteralDVTRSupervision
from mmvtr.models.supervisions.early_teacher import EarlyTeacher
from mmvtr.models.supervisions.guide import GuideSupervision, HardnessSupervision
from mmvtr.models.supervisions.hubs import HubSupervision
from mmvtr.models.supervisions.pcme import PCMESupervision
from mmvtr.models.supervisions.relative_scores import (
    ImplicationSupervision,
    RelativeScoreSupervision,
)
from mmvtr.models.supervisions.stored_vectors import StoredFrameTeacher
from mmvtr.models.supervisions.teachers import FrozenTeachers, RelevanceTeacher, StoredTeachers
from mmvtr.models.supervisions.weights import OracleSupervision, RelevanceSupervision
from mmvtr.registry import own_names

__all__ = own_names(globals())
