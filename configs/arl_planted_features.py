# ARL on planted clips of three moments, from cached features (docs/arl.md).
_base_ = ['maxframe_planted_features.py']

model = dict(supervision=dict(_delete_=True, type='ARLSupervision', dim=128, warmup=0.75, cap=1))
custom_hooks = [dict(type='mmvtr.AmbiguityHook'), dict(type='mmvtr.MomentsHook')]
