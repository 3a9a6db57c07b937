# ARL without ambiguity detection on TVR, CLIP ViT-L/14 features (Tab. 5, row a).
_base_ = ['arl_tvr_clip.py']

model = dict(supervision=None)
custom_hooks = [dict(type='mmvtr.MomentsHook')]
