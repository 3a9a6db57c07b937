# uatvr_implication_planted_features.py with UATVR's sigma as a floor: a text with a smaller sigma
# is spared less.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/uatvr_features.py',
]

# PYTHONPATH=projects/lab/evidence
custom_imports = dict(imports=['study_parts.sigma'], allow_failed_imports=False)
model = dict(
    losses=dict(contrastive=dict(weighted='v2t')),
    supervision=dict(
        type='CombinedSupervision',
        combine='max',
        parts=dict(
            words=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
            sigma=dict(type='SigmaSupervision', half=0.5),
        ),
    ),
)
train_dataloader = dict(dataset=dict(records=dict(agreement=dict(type='CaptionImplication'))))
test_evaluator = [
    *_base_.test_evaluator,
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
custom_hooks = [dict(type='mmvtr.SigmaFileHook')]
