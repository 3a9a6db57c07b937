_base_ = [
    '_base_/default_runtime.py',
    '_base_/planted.py',
    '_base_/c2v_tiny.py',
]

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05),
    clip_grad=dict(max_norm=1.0),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=30, val_interval=5)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=3, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=3, end=30, eta_min=1e-5, convert_to_iter_based=True),
]
