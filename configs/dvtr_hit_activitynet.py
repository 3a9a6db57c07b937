# DVTR + HiT on ActivityNet (DVTR Tab. VI).
_base_ = ['_base_/default_runtime.py', '_base_/activitynet_experts.py', '_base_/dvtr_hit.py']

model = dict(encoder=_base_.rows)

# 3,160 steps: what starts from nothing learns at 1e-4 (ours: docs/hit.md), BERT at 2e-5.
optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={
            'encoder': dict(lr_mult=5.0),
            'encoder.text.': dict(lr_mult=1.0),
            'heads': dict(lr_mult=5.0),
            'supervision': dict(lr_mult=2500.0),
        }
    )
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
