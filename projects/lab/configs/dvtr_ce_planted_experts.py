# DVTR on CE, on the planted corpus: dvtr_ce_msrvtt_full.py's parts, with the ramp in the middle of
# the training and a sharpness of 4, untuned.  Control: ce_planted_experts.py.
_base_ = ['../../../configs/ce_planted_experts.py']

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision',
        num_samples=7,  # K, Sec. V-A.2
        reference='mean',
        sharpness=4.0,
        floor=0.0,  # Eq. 13 has none
        ramp=(0.33, 0.67),
    ),
)
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(heads=dict(lr_mult=1.0), supervision=dict(lr_mult=10.0)))
)
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.SoftPositiveMetric')]
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
