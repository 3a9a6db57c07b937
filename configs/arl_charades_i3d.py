# ARL on Charades-STA, I3D and RoBERTa features, which the paper does not report.
_base_ = ['_base_/prvr.py', '_base_/prvr_charades.py', '_base_/arl_i3d.py']

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=1024), text=dict(in_dim=1024), dropout=0.15)),
    losses=dict(triplet=dict(pool=None)),  # no hard negatives on this small set
)
