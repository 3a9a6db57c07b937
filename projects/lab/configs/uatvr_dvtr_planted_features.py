# UATVR with DVTR's heads and weights (DVTR Eq. 3-13): no paper combines the two. UATVR's own head
# has unit-length means, for which W / D is so small that all match probabilities are equal and eta
# falls to its floor; under DVTR's heads, UATVR's losses compare cosines as before. As UATVR trains
# everything jointly (its Eq. 13), the heads move the encoder, which DVTR's do not.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/uatvr_features.py',
]

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.33, 0.67)
    ),
)
test_evaluator = [
    *_base_.test_evaluator,
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
    dict(type='mmvtr.SoftPositiveMetric'),
]
custom_hooks = [dict(type='mmvtr.SigmaFileHook')]
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
