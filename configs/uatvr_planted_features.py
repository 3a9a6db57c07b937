# UATVR with cached features and 60 % general captions (docs/uatvr.md).
_base_ = ['_base_/schedule_planted.py', '_base_/planted_features.py', '_base_/uatvr_features.py']

test_evaluator = [
    *_base_.test_evaluator,
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
custom_hooks = [dict(type='mmvtr.SigmaFileHook')]
