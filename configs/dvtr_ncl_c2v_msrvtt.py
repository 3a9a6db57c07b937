# DVTR's weights (Eq. 13) on NCL's normalised scores (Eq. 12), MSR-VTT 1k-A: no paper has both.
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msrvtt_1ka.py',
    '_base_/dvtr.py',
    '_base_/train_queue.py',
]

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(
    checkpoint=dict(save_best='sinkhorn/retrieval/rsum'),
    eta=dict(type='mmvtr.EtaMonitorHook'),
)
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(heads=dict(lr_mult=0.2), supervision=dict(lr_mult=100.0)))
)
