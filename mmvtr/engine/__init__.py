"""Everything around a training step: hooks, loops and checks, and the trainings that use them."""

from mmvtr.engine.hooks.agreement import HedgedScalingHook, LocalScalingHook, SureFirstHook
from mmvtr.engine.hooks.ambiguity_hook import AmbiguityHook
from mmvtr.engine.hooks.broken_video_hook import BrokenVideoHook
from mmvtr.engine.hooks.checkpoint_hook import PlainCheckpointHook
from mmvtr.engine.hooks.console import TimedLoggerHook
from mmvtr.engine.hooks.eta_monitor import EtaMonitorHook
from mmvtr.engine.hooks.members import MembersHook
from mmvtr.engine.hooks.moments_hook import MomentsHook
from mmvtr.engine.hooks.pictures_hook import PicturesHook
from mmvtr.engine.hooks.query_queue import QueryQueueHook
from mmvtr.engine.hooks.result_hooks import ModalityGapHook, ScoresFileHook, SigmaFileHook
from mmvtr.engine.hooks.score_transforms import (
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
from mmvtr.engine.hooks.step_hooks import ExactSeedHook, MomentumHook, ProgressHook
from mmvtr.engine.loops.alternating import AlternatingTrainLoop
from mmvtr.engine.loops.evaluation import Evaluation
from mmvtr.engine.loops.evaluation_loop import RetrievalLoop
from mmvtr.engine.loops.sharded import FullyShardedRetriever
from mmvtr.engine.optim_wrappers import AutocastOptimWrapper, MatrixDecayConstructor
from mmvtr.engine.optimizers import BertAdam, Ranger
from mmvtr.engine.runner import ToolRunner
from mmvtr.engine.schedulers import WarmupCosineLR, WarmupLinearLR
from mmvtr.registry import own_names

__all__ = own_names(globals())
