# ARL on TVR, I3D and RoBERTa features (Tab. 1).
_base_ = ['_base_/prvr.py', '_base_/prvr_tvr.py', '_base_/arl_i3d.py']

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=3072), text=dict(in_dim=768))),
    supervision=dict(frame_slack=0.1, lambda_nce=0.05, margin=0.1, ambiguous_margin=0.05),
    losses=dict(
        nce=dict(loss_weight=0.1),  # GMMFormer: hard ones from epoch 30
        triplet=dict(margin=0.1, pool_from=0.3),
    ),
)
optim_wrapper = dict(optimizer=dict(lr=0.0003))
