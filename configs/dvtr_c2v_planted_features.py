# DVTR on CLIP2Video with cached features and 60 % general captions (docs/dvtr.md).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/schedule_planted.py',
    '_base_/c2v_tiny.py',
    '_base_/planted_features.py',
]

model = dict(
    encoder=dict(frames=dict(_delete_=True, type='FeatureFrames', in_dim=128)),
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.33, 0.67)
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),  # Eq. 13
)
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.SoftPositiveMetric'),
]
