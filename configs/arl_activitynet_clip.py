# ARL on ActivityNet Captions, CLIP ViT-L/14 features (Tab. 2).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/prvr_activitynet_clip.py',
    '_base_/arl_clip.py',
]
