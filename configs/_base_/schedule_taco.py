# TACo's: Adam at 1e-4 with a decay of 1e-5, a sixth of 30,000 steps as warm-up, then down to 0
# linearly; batch 128.  Ours: decay on matrices.  train_cfg.max_epochs, 30,000 steps, is the
# dataset's.
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='Adam', lr=1e-4, weight_decay=1e-5),
)
param_scheduler = [dict(type='mmvtr.WarmupLinearLR', warmup=1 / 6, by_epoch=False)]
auto_scale_lr = dict(enable=False, base_batch_size=128)  # pairs a step, over all processes
