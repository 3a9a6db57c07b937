# NeighborRetr's losses on CLIP4Clip with cached features and imbalanced captions
# (docs/neighborretr.md).  Control: clip4clip_planted_features.py.
_base_ = ['../../../configs/clip4clip_planted_features.py']

model = dict(
    similarity=dict(type='TokenVectorSimilarity'),
    supervision=dict(type='HubSupervision', dim=128),
    losses=dict(contrastive=dict(type='NeighborRetrLoss', neighbours=5)),
)
# No modality gap, as a score is not an inner product of two vectors.
custom_hooks = _base_.custom_hooks[:-1]
