# CLIP2Video without debiasing on the planted corpus: the baseline of dvtr_c2v_planted.py.
_base_ = [
    '_base_/planted.py',
    '_base_/schedule_planted.py',
    '_base_/c2v_tiny.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))))
train_cfg = dict(max_epochs=10, val_interval=5)  # 12 on features, which cost little
