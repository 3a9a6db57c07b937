# DVTR + CLIP2Video on VATEX (DVTR Tab. V), HGR's split.  The CLIP2Video of that table (57.3) was
# tested on another list: for that set test_dataloader.dataset.split=test_1k5, and choose no
# checkpoint on val, half of which is in it.
_base_ = ['_base_/schedule_clip_5e.py', '_base_/vatex.py', '_base_/dvtr.py']

optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(heads=dict(lr_mult=0.2), supervision=dict(lr_mult=100.0)))
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
