# DVTR's debiased triplet loss (Eq. 12) on cached features, without a floor, as in Eq. 12. The
# margin is that of its control, c2v_planted_features_triplet.py.
_base_ = '../../../configs/c2v_planted_features_triplet.py'

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.0, ramp=(0.33, 0.67)
    ),
)
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.SoftPositiveMetric')]
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
