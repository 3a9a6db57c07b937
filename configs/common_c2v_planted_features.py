# CommonTextSupervision on CLIP2Video with cached features and 60 % general captions
# (docs/common.md): negatives of common texts are spared where they score like a match, in the
# video-to-text direction.
_base_ = ['c2v_planted_features.py']

model = dict(
    supervision=dict(
        type='CommonTextSupervision', dim=128, levels=('global', 'aligned'), floor=0.1
    ),
    losses=dict(contrastive=dict(weighted='v2t')),
)
