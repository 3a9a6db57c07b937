"""Losses on score matrices, and objectives with further inputs."""

from mmvtr.models.losses.captioning import CrossCaptioning
from mmvtr.models.losses.distillation import (
    DistillationLoss,
    FrameDistillation,
    KLDistillationLoss,
    SoftLabelContrastiveLoss,
)
from mmvtr.models.losses.matrix import (
    ContrastiveLoss,
    MatrixLoss,
    NormalizedContrastiveLoss,
    RINCELoss,
    SigmoidLoss,
)
from mmvtr.models.losses.neighbours import NeighborRetrLoss
from mmvtr.models.losses.objectives import (
    InclusionLoss,
    KLToUnit,
    MultiInstanceContrast,
    OfficialKLToUnit,
    QueryDiversity,
    SoftContrast,
    TokenContrast,
)
from mmvtr.models.losses.ranking import (
    AdaptiveMaxMarginLoss,
    EgoNCELoss,
    RankingLoss,
    RelevantRankingLoss,
    SeveralHingesLoss,
)
from mmvtr.models.target import LocalBatch, Target
from mmvtr.registry import own_names

__all__ = own_names(globals())
