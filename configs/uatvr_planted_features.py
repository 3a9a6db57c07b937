# UATVR with cached features and 60 % general captions (docs/uatvr.md).
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/uatvr_tiny.py',
    '_base_/planted_features.py',
]

model = dict(encoder=dict(frames=dict(_delete_=True, type='FeatureFrames', in_dim=128)))
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
custom_hooks = [dict(type='mmvtr.SigmaFileHook')]
