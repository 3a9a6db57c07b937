# ARL on planted clips of three moments, from cached features (docs/arl.md).
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/planted_untrimmed_features.py',
    '_base_/arl_features.py',
]

model = dict(supervision=dict(type='ARLSupervision', dim=128, warmup=0.75, cap=1))
custom_hooks = [dict(type='mmvtr.AmbiguityHook'), dict(type='mmvtr.MomentsHook')]
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_SumR'))
train_cfg = dict(val_interval=6)
