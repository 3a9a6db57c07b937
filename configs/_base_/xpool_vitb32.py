# X-Pool (Gorti et al., CVPR 2022) over CLIP ViT-B/32: each text pools the frames of each video for
# itself, by one layer of cross-attention whose maps begin as identities; symmetric cross-entropy at
# CLIP's own temperature, which is trained.
_base_ = ['clip4clip_vitb32.py']

model = dict(
    similarity=dict(_delete_=True, type='XPoolSimilarity', dim=512, heads=1, dropout=0.3),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
