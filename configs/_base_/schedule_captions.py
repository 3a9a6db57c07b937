# 6 visits to each text at a batch of 128; else as on planted clips
# (projects/evidence/pages/judged_training.md).
_base_ = ['schedule_planted.py']

train_cfg = dict(max_epochs=6, val_interval=2)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=1, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=1, eta_min_ratio=0.01, convert_to_iter_based=True),
]
