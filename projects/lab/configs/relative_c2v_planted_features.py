# RelativeScoreSupervision on CLIP2Video with cached features and 60 % general captions
# (docs/agreement.md): weights from the model's own scores, in the video-to-text direction only.
_base_ = '../../../configs/c2v_planted_features.py'

model = dict(
    losses=dict(
        contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'), weighted='v2t')
    ),
    supervision=dict(type='RelativeScoreSupervision', levels=('global', 'aligned'), slack=-0.03),
)
