# GMMFormer on Charades-STA, I3D and RoBERTa features.
_base_ = ['_base_/prvr.py', '_base_/prvr_charades.py', '_base_/gmmformer_i3d.py']

model = dict(
    losses=dict(frame_nce=dict(loss_weight=0.04), t2v=dict(pool=None), v2t=dict(pool=None)),
    encoder=dict(frames=dict(in_dim=1024), text=dict(in_dim=1024), dropout=0.15),
    objectives=dict(diversity=dict(margin=0.15, loss_weight=0.005)),
)
