"""Everything that happens around a training step: hooks, loops, optimizers, checkpoints."""

from mmvtr.engine.checkpoint import PlainCheckpointHook
from mmvtr.engine.eta_monitor import EtaMonitorHook
from mmvtr.engine.evaluation_loop import RetrievalLoop
from mmvtr.engine.hooks import BrokenVideoHook, ExactSeedHook, ProgressHook
from mmvtr.engine.loops import AlternatingTrainLoop
from mmvtr.engine.optim import AutocastOptimWrapper, BertAdam, WarmupCosineLR

__all__ = [
    'AlternatingTrainLoop',
    'AutocastOptimWrapper',
    'BertAdam',
    'BrokenVideoHook',
    'EtaMonitorHook',
    'ExactSeedHook',
    'PlainCheckpointHook',
    'ProgressHook',
    'RetrievalLoop',
    'WarmupCosineLR',
]
