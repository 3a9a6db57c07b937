# Algorithm 1 with its line 7: the losses of the uncertainty module (Eq. 8, 11) move the encoders,
# too, in the dose that the weights give.  K of Eq. 8 (Tab. XI) says something only here.
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_1ka.py', '_base_/dvtr.py']

model = dict(supervision=dict(match_weight=0.1, align_weight=0.1), detach_heads=False)
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(heads=dict(lr_mult=0.2), supervision=dict(lr_mult=100.0)))
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
