"""Objectives, ``objective(texts, videos, target, batch)``: losses on more than a score matrix."""

from mmvtr.models.losses.objectives.captioning import CrossCaptioning
from mmvtr.models.losses.objectives.distributions import (
    InclusionLoss,
    KLToUnit,
    MultiInstanceContrast,
    OfficialKLToUnit,
    SoftContrast,
)
from mmvtr.models.losses.objectives.frame_distillation import FrameDistillation
from mmvtr.models.losses.objectives.query_diversity import QueryDiversity
from mmvtr.models.losses.objectives.token_contrast import TokenContrast

__all__ = [
    'CrossCaptioning',
    'FrameDistillation',
    'InclusionLoss',
    'KLToUnit',
    'MultiInstanceContrast',
    'OfficialKLToUnit',
    'QueryDiversity',
    'SoftContrast',
    'TokenContrast',
]
