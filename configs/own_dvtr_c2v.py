# DVTR + CLIP2Video on your own videos (docs/own_data.md): where captions of one video also fit
# others.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/own.py',
    '_base_/schedule_own.py',
    '_base_/dvtr.py',
]

model = dict(
    encoder=dict(frames=dict(grad_checkpointing=False)),  # 16 x 12 frames keep 28 GB (--amp: 14)
)
optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={
            'encoder.frames': dict(lr_mult=0.1),
            'heads': dict(lr_mult=0.2),
            # A few hundred steps, as dvtr_c2v_activitynet.py.
            'supervision': dict(lr_mult=1000.0),
        },
    ),
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
shortcuts = dict(pretrained=['model.encoder.frames.pretrained', 'model.encoder.text.pretrained'])
