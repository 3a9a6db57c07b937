"""Everything that happens around a training step: hooks, loops, optimizers, checkpoints."""

from mmvtr.adafactor import adafactor  # noqa: F401 - before mmengine's own optimizers
from mmvtr.engine.ambiguity_hook import AmbiguityHook
from mmvtr.engine.checkpoint import PlainCheckpointHook
from mmvtr.engine.eta_monitor import EtaMonitorHook
from mmvtr.engine.evaluation import Evaluation
from mmvtr.engine.evaluation_loop import RetrievalLoop
from mmvtr.engine.hooks import BrokenVideoHook, ExactSeedHook, ProgressHook
from mmvtr.engine.loops import AlternatingTrainLoop
from mmvtr.engine.members import MembersHook
from mmvtr.engine.modality_gap import ModalityGapHook
from mmvtr.engine.moments_hook import MomentsHook
from mmvtr.engine.momentum import MomentumHook
from mmvtr.engine.optim import (
    AutocastOptimWrapper,
    BertAdam,
    Ranger,
    WarmupCosineLR,
    WarmupLinearLR,
)
from mmvtr.engine.pictures_hook import PicturesHook
from mmvtr.engine.query_queue import QueryQueueHook
from mmvtr.engine.runner import ToolRunner
from mmvtr.engine.score_transforms import (
    CSLSHook,
    DualSoftmaxHook,
    HedgedScalingHook,
    InvertedSoftmaxHook,
    LocalScalingHook,
    QBNormHook,
    SinkhornHook,
    UnbalancedSinkhornHook,
)
from mmvtr.engine.scores_file import ScoresFileHook
from mmvtr.engine.sigma import SigmaFileHook
from mmvtr.engine.sure_first import SureFirstHook
from mmvtr.engine.timed_logger import TimedLoggerHook
from mmvtr.engine.weight_decay import MatrixDecayConstructor

__all__ = [
    'AlternatingTrainLoop',
    'AmbiguityHook',
    'AutocastOptimWrapper',
    'BertAdam',
    'BrokenVideoHook',
    'CSLSHook',
    'DualSoftmaxHook',
    'EtaMonitorHook',
    'Evaluation',
    'ExactSeedHook',
    'HedgedScalingHook',
    'InvertedSoftmaxHook',
    'LocalScalingHook',
    'MatrixDecayConstructor',
    'MembersHook',
    'ModalityGapHook',
    'MomentsHook',
    'MomentumHook',
    'PicturesHook',
    'PlainCheckpointHook',
    'ProgressHook',
    'QBNormHook',
    'QueryQueueHook',
    'Ranger',
    'RetrievalLoop',
    'ScoresFileHook',
    'SigmaFileHook',
    'SinkhornHook',
    'SureFirstHook',
    'TimedLoggerHook',
    'UnbalancedSinkhornHook',
    'ToolRunner',
    'WarmupCosineLR',
    'WarmupLinearLR',
]
