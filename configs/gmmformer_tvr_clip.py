# GMMFormer on TVR, CLIP ViT-L/14 features, up to 77 words (ARL Tab. 2).
_base_ = ['_base_/prvr.py', '_base_/prvr_tvr_clip.py', '_base_/gmmformer_i3d.py']

model = dict(
    losses=dict(
        clip_nce=dict(loss_weight=0.1),
        t2v=dict(margin=0.1, pool_from=0.3),  # hard negatives from epoch 30, elsewhere 20
        v2t=dict(margin=0.1, pool_from=0.3),
    ),
    encoder=dict(frames=dict(in_dim=768), text=dict(in_dim=768), max_words=77),
    objectives=dict(diversity=dict(margin=0.15, loss_weight=0.001)),
)
optim_wrapper = dict(optimizer=dict(lr=0.0003))
