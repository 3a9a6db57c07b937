# Scores combined with the agreement of an item's train texts (docs/agreement.md), in the
# video-to-text direction; settings are those of the planted corpus.
_base_ = ['_base_/captions_flickr8k.py']

model = dict(
    losses=dict(contrastive=dict(type='ContrastiveLoss', weighted='v2t')),
    supervision=dict(type='RelativeScoreSupervision', slack=0.0, agreement=0.2, floor=0.05),
)
train_dataloader = dict(dataset=dict(records=dict(agreement=dict(type='CaptionAgreement'))))
