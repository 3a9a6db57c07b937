# DVTR with PCME's match probability as its uncertainty on CLIP2Video, MSR-VTT Full (Tab. IX).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_full.py', '_base_/dvtr.py']

model = dict(heads=dict(type='PCMEGaussianHead'), supervision=dict(type='PCMESupervision'))
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(heads=dict(lr_mult=0.2), supervision=dict(lr_mult=100.0)))
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
