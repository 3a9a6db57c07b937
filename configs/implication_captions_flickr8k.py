# Implied texts (docs/agreement.md) on captions that look for captions; settings are those of the
# planted corpus.
_base_ = ['infonce_captions_flickr8k.py']

model = dict(
    supervision=dict(type='ImplicationSupervision', floor=0.15, specific=0.5),
    losses=dict(contrastive=dict(weighted='v2t')),
)
train_dataloader = dict(dataset=dict(agreement=dict(type='CaptionImplication')))
