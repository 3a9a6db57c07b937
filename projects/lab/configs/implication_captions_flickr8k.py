# Implied texts (docs/agreement.md) in retrieval of captions by captions; settings are those of the
# planted corpus.
_base_ = ['_base_/captions_flickr8k.py']

model = dict(
    losses=dict(contrastive=dict(type='ContrastiveLoss', weighted='v2t')),
    supervision=dict(type='ImplicationSupervision', floor=0.15, specific=0.5),
)
train_dataloader = dict(dataset=dict(records=dict(agreement=dict(type='CaptionImplication'))))
