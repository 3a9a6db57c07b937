# CLIP2Video without debiasing on cached features: the baseline of dvtr_c2v_planted_features.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/schedule_planted.py',
    '_base_/c2v_tiny.py',
    '_base_/planted_features.py',
]

model = dict(
    encoder=dict(frames=dict(_delete_=True, type='FeatureFrames', in_dim=128)),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
