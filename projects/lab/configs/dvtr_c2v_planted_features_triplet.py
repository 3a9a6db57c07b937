# DVTR's debiased triplet loss (Eq. 12) on cached features, without a floor, as in Eq. 12. The
# margin is that of its control, c2v_planted_features_triplet.py.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
]

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.0, ramp=(0.33, 0.67)
    ),
    losses=dict(triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2)),
)
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.SoftPositiveMetric')]
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
