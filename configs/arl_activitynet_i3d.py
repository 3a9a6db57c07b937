# ARL on ActivityNet Captions, I3D and RoBERTa features (Tab. 1).
_base_ = ['_base_/prvr.py', '_base_/prvr_activitynet.py', '_base_/arl_i3d.py']

model = dict(encoder=dict(encoder=dict(frames=dict(in_dim=1024), text=dict(in_dim=1024))))
