# DVTR's weights (Eq. 13) on NCL's normalised scores (Eq. 12): no paper combines the two. The biases
# are computed from all pairs; the weights then scale the push on each negative.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
    '../../../configs/_base_/train_queue_planted.py',
]

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.33, 0.67)
    ),
    losses=dict(
        contrastive=dict(
            type='NormalizedContrastiveLoss', reads=('global', 'aligned'), iterations=4
        )
    ),
)
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.SoftPositiveMetric')]
default_hooks = dict(
    checkpoint=dict(save_best='sinkhorn/retrieval/rsum'),
    eta=dict(type='mmvtr.EtaMonitorHook'),
)
