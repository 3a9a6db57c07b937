# ARL on ActivityNet Captions, CLIP ViT-L/14 features (Tab. 2).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/prvr_activitynet_clip.py',
    '_base_/schedule_prvr.py',
    '_base_/arl_clip.py',
]

model = dict(
    losses=dict(nce=dict(loss_weight=0.04)),  # both directions of .02, as lambda_nce
    supervision=dict(lambda_nce=0.02),
)
