# CLIP4Clip (meanP) on MSVD: the baseline of ncl_clip4clip_msvd.py.
_base_ = [
    '_base_/msvd.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
    '_base_/train_queue.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))

# 3 epochs without warm-up (NCL App. B).
train_cfg = dict(max_epochs=3)
param_scheduler = [dict(type='mmvtr.WarmupCosineLR', warmup=0.0, by_epoch=False)]
