# HiT on ActivityNet (the baseline of dvtr_hit_activitynet.py, which no table has).
_base_ = ['_base_/default_runtime.py', '_base_/activitynet_experts.py', '_base_/hit.py']

model = dict(encoder=_base_.rows)

# 3,160 steps: what starts from nothing learns at 1e-4 (ours: docs/hit.md), BERT at 2e-5.
optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={'encoder': dict(lr_mult=5.0), 'encoder.text.': dict(lr_mult=1.0)}
    )
)
