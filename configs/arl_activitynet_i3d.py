# ARL on ActivityNet Captions, I3D and RoBERTa features (Tab. 1).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/prvr_activitynet.py',
    '_base_/schedule_prvr.py',
    '_base_/arl_i3d.py',
]

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=1024), text=dict(in_dim=1024))),
    losses=dict(nce=dict(loss_weight=0.04)),  # both directions of .02, as lambda_nce
    supervision=dict(lambda_nce=0.02),
)
