# CLIP4Clip (meanP) on MSVD with its own schedule, 5 epochs with warm-up.  clip4clip_msvd.py has the
# 3 epochs without that NCL found on val (App. B).
_base_ = ['clip4clip_msvd.py']

train_cfg = dict(max_epochs=5)
param_scheduler = [dict(type='mmvtr.WarmupCosineLR', warmup=0.1, by_epoch=False)]
