# CLIP2Video without debiasing on cached features: the baseline of dvtr_c2v_planted_features.py.
_base_ = ['_base_/schedule_planted.py', '_base_/planted_features.py', '_base_/c2v_features.py']

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))))
