# CLIP4Clip (meanP) on MSVD with its own schedule.
_base_ = ['../clip4clip_msvd.py']

train_cfg = dict(max_epochs=5)
param_scheduler = [dict(type='mmvtr.WarmupCosineLR', warmup=0.1, by_epoch=False)]
