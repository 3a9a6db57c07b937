# Weights from the model's own scores, in the video-to-text direction only (docs/agreement.md).
_base_ = ['_base_/captions_flickr8k.py']

model = dict(
    losses=dict(contrastive=dict(type='ContrastiveLoss', weighted='v2t')),
    supervision=dict(type='RelativeScoreSupervision', slack=-0.03),
)
