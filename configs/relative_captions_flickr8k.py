# Weights from the model's own scores, in the video-to-text direction only (docs/agreement.md).
_base_ = ['infonce_captions_flickr8k.py']

model = dict(
    supervision=dict(type='RelativeScoreSupervision', slack=-0.03),
    losses=dict(contrastive=dict(weighted='v2t')),
)
