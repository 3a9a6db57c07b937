# ARL on TVR, CLIP ViT-L/14 features (Tab. 2; Tab. 5, row e).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/prvr_tvr_clip.py',
    '_base_/arl_clip.py',
]

model = dict(
    losses=dict(
        nce=dict(loss_weight=0.1),
        triplet=dict(margin=0.1, pool_from=0.3),  # GMMFormer: hard ones from epoch 30
    ),
    supervision=dict(lambda_nce=0.05, margin=0.1, ambiguous_margin=0.05, frame_slack=0.1),
)
optim_wrapper = dict(optimizer=dict(lr=3e-4))
