# schedule_clip_5e.py with DVTR's 2e-5 for its uncertainty module (Sec. V-A.2).
_base_ = ['schedule_clip_5e.py']

optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={'heads': dict(lr_mult=0.2), 'supervision': dict(lr_mult=0.2)},
    )
)
