# NCL on CLIP4Clip with cached features and imbalanced captions (docs/ncl.md).
_base_ = '../../../configs/clip4clip_planted_features.py'

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
train_cfg = dict(max_epochs=6, val_interval=2)  # an epoch has 5 captions per clip
