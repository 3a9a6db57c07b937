# DVTR as printed, to show that it fails: Eq. 8, 10, 11 as printed, gradients through eta, heads
# that move the encoders, and Algorithm 1 in two passes per epoch (docs/dvtr.md).
_base_ = '../../../configs/c2v_planted.py'

model = dict(
    detach_heads=False,
    heads=dict(type='HierarchicalGaussianHead', spread='variance'),
    supervision=dict(type='LiteralDVTRSupervision', num_samples=7),
)
find_unused_parameters = True  # a stage trains only a part of the model
train_cfg = dict(
    type='mmvtr.AlternatingTrainLoop',
    stages=('uncertainty', 'retrieval'),
    max_epochs=10,
    val_interval=5,
)
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.SoftPositiveMetric'),
]
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
