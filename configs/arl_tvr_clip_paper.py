# ARL with the paper's thresholds on TVR, CLIP ViT-L/14 features (Tab. 2): tau_s is the mean
# score of annotated pairs, tau_u the mean of their u, for pairs and frames, and sets have any size.
_base_ = ['_base_/prvr.py', '_base_/prvr_tvr_clip.py', '_base_/arl_i3d.py']

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=768), text=dict(in_dim=768), max_words=77)),
    supervision=dict(
        cap=None,
        frame_slack=0.1,
        lambda_nce=0.05,
        margin=0.1,
        ambiguous_margin=0.05,
        rule='mean',
        u_spread=0.0,
    ),
    losses=dict(nce=dict(loss_weight=0.1), triplet=dict(margin=0.1, pool_from=0.3)),
)
optim_wrapper = dict(optimizer=dict(lr=0.0003))
