# ARL on planted clips of three moments, from cached features (docs/arl.md).
_base_ = ['maxframe_planted_features.py']

model = dict(supervision=dict(type='ARLSupervision', dim=128, warmup=0.5))
custom_hooks = [dict(type='AmbiguityHook')]
