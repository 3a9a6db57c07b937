# RelativeScoreSupervision on CLIP2Video with cached features and 60 % general captions
# (docs/agreement.md): weights from the model's own scores, in the video-to-text direction only.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
]

model = dict(
    losses=dict(
        contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'), weighted='v2t')
    ),
    supervision=dict(type='RelativeScoreSupervision', levels=('global', 'aligned'), slack=-0.03),
)
