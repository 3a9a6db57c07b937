# CLIP2Video on the length-confounded corpus: the baseline of causal_planted_features.py.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_confound_features.py',
    '../../../configs/_base_/c2v_features.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))))
train_cfg = dict(max_epochs=24, val_interval=6)
