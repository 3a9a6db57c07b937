# GMMFormer on TVR, I3D and RoBERTa features.
_base_ = ['_base_/prvr.py', '_base_/prvr_tvr.py', '_base_/gmmformer_i3d.py']

model = dict(
    losses=dict(
        clip_nce=dict(loss_weight=0.1),
        t2v=dict(margin=0.1, pool_from=0.3),  # hard negatives from epoch 30, elsewhere 20
        v2t=dict(margin=0.1, pool_from=0.3),
    ),
    encoder=dict(frames=dict(in_dim=3072), text=dict(in_dim=768)),
    objectives=dict(diversity=dict(margin=0.15, loss_weight=0.001)),
)
optim_wrapper = dict(optimizer=dict(lr=0.0003))
