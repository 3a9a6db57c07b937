# Scores and what the train texts of an item say of each other (docs/agreement.md), in the
# video-to-text direction; settings are those of the planted corpus.
_base_ = ['relative_captions_flickr8k.py']

model = dict(supervision=dict(slack=0.0, agreement=0.2, floor=0.05))
train_dataloader = dict(dataset=dict(agreement=dict(type='CaptionAgreement')))
