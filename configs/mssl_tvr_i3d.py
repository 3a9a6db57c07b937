# MS-SL on TVR, I3D and RoBERTa features.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/prvr_tvr.py',
    '_base_/mssl_i3d.py',
]

model = dict(
    encoder=dict(frames=dict(in_dim=3072), text=dict(in_dim=768)),
    losses=dict(
        t2v=dict(margin=0.1),
        v2t=dict(margin=0.1),
    ),
)
