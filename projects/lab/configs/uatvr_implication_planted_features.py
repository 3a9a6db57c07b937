# UATVR that spares negatives implied by the captions of a clip (docs/agreement.md): no paper
# combines the two.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/uatvr_features.py',
]

model = dict(
    losses=dict(contrastive=dict(weighted='v2t')),
    supervision=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
)
train_dataloader = dict(dataset=dict(records=dict(agreement=dict(type='CaptionImplication'))))
test_evaluator = [
    *_base_.test_evaluator,
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
custom_hooks = [dict(type='mmvtr.SigmaFileHook')]
