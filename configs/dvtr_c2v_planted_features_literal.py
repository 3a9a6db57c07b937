# DVTR to the letter on cached features: see dvtr_c2v_planted_literal.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/schedule_planted.py',
    '_base_/c2v_tiny.py',
    '_base_/planted_features.py',
]

model = dict(
    encoder=dict(frames=dict(_delete_=True, type='FeatureFrames', in_dim=128)),
    detach_heads=False,
    heads=dict(type='HierarchicalGaussianHead', spread='variance'),
    supervision=dict(type='LiteralDVTRSupervision', num_samples=7),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
find_unused_parameters = True  # a stage trains a part of the model
train_cfg = dict(type='mmvtr.AlternatingTrainLoop', stages=('uncertainty', 'retrieval'))
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.SoftPositiveMetric'),
]
