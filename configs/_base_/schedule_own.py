# A few hundred steps, for tables of some hundred pairs: 20 epochs, the best on val is tested.  CLIP
# learns at 1e-5, ten times the rate of schedule_clip_5e.py, which has some thousand steps; new
# modules at 1e-4, DVTR's heads at 2e-5, and its slope and bias at 1e-1: two numbers that have far
# to go (docs/dvtr.md).
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='AdamW', lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.2),
    clip_grad=dict(max_norm=1.0),
    paramwise_cfg=dict(
        custom_keys={
            'encoder.text': dict(lr_mult=0.1),
        },
    ),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=20, val_interval=1)
# In shares of the run.
param_scheduler = [dict(type='mmvtr.WarmupCosineLR', warmup=0.1, by_epoch=False)]
auto_scale_lr = dict(enable=False, base_batch_size=16)
