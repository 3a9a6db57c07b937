# DVTR as printed on cached features: see dvtr_c2v_planted_literal.py.
_base_ = '../../../configs/c2v_planted_features.py'

model = dict(
    detach_heads=False,
    heads=dict(type='HierarchicalGaussianHead', spread='variance'),
    supervision=dict(type='LiteralDVTRSupervision', num_samples=7),
)
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.SoftPositiveMetric')]
train_cfg = dict(type='mmvtr.AlternatingTrainLoop', stages=('uncertainty', 'retrieval'))
find_unused_parameters = True  # a stage trains only a part of the model
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
