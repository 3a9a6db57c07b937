"""Losses on score matrices, and objectives with further inputs."""

from mmvtr.models.losses.distillation import DistillationLoss
from mmvtr.models.losses.matrix import (
    ContrastiveLoss,
    MatrixLoss,
    NormalizedContrastiveLoss,
)
from mmvtr.models.losses.neighbours import NeighborRetrLoss
from mmvtr.models.losses.objectives import (
    CrossCaptioning,
    FrameDistillation,
    InclusionLoss,
    KLToUnit,
    MultiInstanceContrast,
    OfficialKLToUnit,
    QueryDiversity,
    SoftContrast,
    TokenContrast,
)
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
