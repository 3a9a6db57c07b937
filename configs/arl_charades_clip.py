# ARL on Charades-STA, CLIP ViT-L/14 features, which the paper does not report.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/prvr_charades_clip.py',
    '_base_/arl_clip.py',
]

model = dict(
    losses=dict(triplet=dict(pool=None)),  # no hard negatives on this small set
)
