# MS-SL on Charades-STA, I3D and RoBERTa features.
_base_ = ['_base_/prvr.py', '_base_/prvr_charades.py', '_base_/mssl_i3d.py']

model = dict(
    encoder=dict(frames=dict(in_dim=1024), text=dict(in_dim=1024)),
    similarity=dict(weights=(0.5, 0.5)),
)
