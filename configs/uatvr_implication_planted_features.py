# UATVR with negatives spared that the captions of a clip imply (docs/agreement.md): no paper has
# both.
_base_ = ['uatvr_planted_features.py']

model = dict(
    supervision=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
    losses=dict(contrastive=dict(weighted='v2t')),
)
train_dataloader = dict(dataset=dict(agreement=dict(type='CaptionImplication')))
