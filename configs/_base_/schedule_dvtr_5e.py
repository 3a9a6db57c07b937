# schedule_clip_5e.py with DVTR's 2e-5 for the heads of its uncertainty module (Sec. V-A.2).  Slope
# and bias of the match probability are two numbers that have far to go: 1e-2, as on the planted
# corpus (at 2e-5 they stay where they start: docs/dvtr.md).
_base_ = ['schedule_clip_5e.py']

optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={'heads': dict(lr_mult=0.2), 'supervision': dict(lr_mult=100.0)},
    )
)
