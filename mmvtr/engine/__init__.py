"""Everything around a training step: hooks, loops, optimizers, checkpoints."""

from mmvtr.engine.hooks.ambiguity_hook import AmbiguityHook
from mmvtr.engine.hooks.basic import (
    BrokenVideoHook,
    ExactSeedHook,
    ModalityGapHook,
    MomentumHook,
    ProgressHook,
    ScoresFileHook,
    SigmaFileHook,
)
from mmvtr.engine.hooks.eta_monitor import EtaMonitorHook
from mmvtr.engine.hooks.members import MembersHook
from mmvtr.engine.hooks.moments_hook import MomentsHook
from mmvtr.engine.hooks.pictures_hook import PicturesHook
from mmvtr.engine.launch.console import TimedLoggerHook
from mmvtr.engine.launch.runner import ToolRunner
from mmvtr.engine.loop.checkpoint import PlainCheckpointHook
from mmvtr.engine.loop.evaluation import Evaluation
from mmvtr.engine.loop.evaluation_loop import RetrievalLoop
from mmvtr.engine.loop.loops import AlternatingTrainLoop
from mmvtr.engine.loop.optim import (
    AutocastOptimWrapper,
    BertAdam,
    MatrixDecayConstructor,
    Ranger,
    WarmupCosineLR,
    WarmupLinearLR,
)
from mmvtr.engine.loop.sharded import FullyShardedRetriever
from mmvtr.engine.transforms.agreement import HedgedScalingHook, LocalScalingHook, SureFirstHook
from mmvtr.engine.transforms.query_queue import QueryQueueHook
from mmvtr.engine.transforms.score_transforms import (
    AutoHook,
    CSLSHook,
    DBNormHook,
    DBSNHook,
    DualSoftmaxHook,
    InvertedSoftmaxHook,
    NNNHook,
    QBNormHook,
    SinkhornHook,
    UnbalancedSinkhornHook,
)
from mmvtr.registry import own_names

__all__ = own_names(globals())
