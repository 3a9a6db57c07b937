# MS-SL on TVR, I3D and RoBERTa features.
_base_ = ['_base_/prvr.py', '_base_/prvr_tvr.py', '_base_/mssl_i3d.py']

model = dict(
    losses=dict(t2v=dict(margin=0.1), v2t=dict(margin=0.1)),
    encoder=dict(frames=dict(in_dim=3072), text=dict(in_dim=768)),
)
