# ARL on Charades-STA, CLIP ViT-L/14 features, which the paper does not report.
_base_ = ['_base_/prvr.py', '_base_/prvr_charades_clip.py', '_base_/arl_i3d.py']

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=768), text=dict(in_dim=768), max_words=77)),
    losses=dict(triplet=dict(pool=None)),  # no hard negatives on this small set
)
