# ARL on TVR, I3D and RoBERTa features (Tab. 1).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/prvr_tvr.py',
    '_base_/arl_i3d.py',
]

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=3072), text=dict(in_dim=768))),
    losses=dict(
        nce=dict(loss_weight=0.1),
        triplet=dict(margin=0.1, pool_from=0.3),  # GMMFormer: hard ones from epoch 30
    ),
    supervision=dict(lambda_nce=0.05, margin=0.1, ambiguous_margin=0.05, frame_slack=0.1),
)
optim_wrapper = dict(optimizer=dict(lr=3e-4))
