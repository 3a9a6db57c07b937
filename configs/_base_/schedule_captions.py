# 12 visits to each text by default; AdamW with warm-up and cosine decay.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05, fused=True),
    clip_grad=dict(max_norm=1.0),
    # DVTR's slope and bias are two numbers that have far to go in few steps.
    paramwise_cfg=dict(custom_keys={'supervision': dict(lr_mult=10.0, decay_mult=0.0)}),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=2)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=1, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=1, eta_min_ratio=0.01, convert_to_iter_based=True),
]
fit_warmup = True  # where a training of one or two epochs is asked for, a tenth of it
