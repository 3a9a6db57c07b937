# CLIP4Clip on cached features and imbalanced captions, normalised at test time only: the baseline
# of ncl_clip4clip_planted_features.py (docs/ncl.md).
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/planted_imbalanced_features.py',
    '_base_/clip4clip_features.py',
    '_base_/train_queue_planted.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))
train_cfg = dict(max_epochs=6, val_interval=2)  # an epoch is 5 captions a clip
