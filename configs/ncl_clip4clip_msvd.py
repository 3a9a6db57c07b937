# NCL on CLIP4Clip, MSVD (NCL Tab. 2, App. B).
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msvd.py',
    '_base_/clip4clip_vitb32.py',
    '_base_/train_queue.py',
]

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
param_scheduler = [dict(type='mmvtr.WarmupCosineLR', warmup=0.0, by_epoch=False)]
# 3 epochs without warm-up (NCL App. B).
train_cfg = dict(max_epochs=3)
