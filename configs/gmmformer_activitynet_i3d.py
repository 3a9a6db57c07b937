# GMMFormer on ActivityNet Captions, I3D and RoBERTa features.
_base_ = ['_base_/prvr.py', '_base_/prvr_activitynet.py', '_base_/gmmformer_i3d.py']

model = dict(encoder=dict(frames=dict(in_dim=1024), text=dict(in_dim=1024)))
