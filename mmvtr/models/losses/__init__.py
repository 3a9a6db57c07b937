"""Losses of score matrices, and objectives that read more than a matrix."""

from mmvtr.models.losses.captioning import CrossCaptioning
from mmvtr.models.losses.distillation import DistillationLoss
from mmvtr.models.losses.distributions import (
    InclusionLoss,
    KLToUnit,
    MultiInstanceContrast,
    OfficialKLToUnit,
    SoftContrast,
)
from mmvtr.models.losses.frame_distillation import FrameDistillation
from mmvtr.models.losses.matrix import (
    ContrastiveLoss,
    MatrixLoss,
    NormalizedContrastiveLoss,
)
from mmvtr.models.losses.neighbours import NeighborRetrLoss
from mmvtr.models.losses.query_diversity import QueryDiversity
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.losses.relevance_losses import (
    AdaptiveMaxMarginLoss,
    EgoNCELoss,
    RelevantRankingLoss,
)
from mmvtr.models.losses.robust import RINCELoss
from mmvtr.models.losses.several_hinges import SeveralHingesLoss
from mmvtr.models.losses.sigmoid import SigmoidLoss
from mmvtr.models.losses.soft_labels import SoftLabelContrastiveLoss
from mmvtr.models.losses.token_contrast import TokenContrast
from mmvtr.models.target import LocalBatch, Target

__all__ = [
    'AdaptiveMaxMarginLoss',
    'ContrastiveLoss',
    'CrossCaptioning',
    'DistillationLoss',
    'EgoNCELoss',
    'FrameDistillation',
    'InclusionLoss',
    'KLToUnit',
    'LocalBatch',
    'MatrixLoss',
    'MultiInstanceContrast',
    'NeighborRetrLoss',
    'NormalizedContrastiveLoss',
    'OfficialKLToUnit',
    'QueryDiversity',
    'RINCELoss',
    'RankingLoss',
    'RelevantRankingLoss',
    'SeveralHingesLoss',
    'SigmoidLoss',
    'SoftContrast',
    'SoftLabelContrastiveLoss',
    'Target',
    'TokenContrast',
]
