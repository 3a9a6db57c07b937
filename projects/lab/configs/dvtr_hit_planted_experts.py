# DVTR on HiT, as hit_planted_experts.py: heads, and weights for the rows of the memory banks.
_base_ = ['hit_planted_experts.py']

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    head_reads='semantic',
    supervision=dict(
        type='DVTRSupervision',
        num_samples=7,
        reference='mean',
        sharpness=2.0,
        floor=0.0,
        ramp=(0.33, 0.67),
    ),
)
# Slope and bias are two scalars that must move far in few steps.
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys={'supervision': dict(lr_mult=10.0, decay_mult=0.0)})
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
