# 12 visits to each clip by default; AdamW with warm-up and cosine decay.  With what
# default_runtime.py says.
default_scope = 'mmvtr'

default_hooks = dict(
    timer=dict(type='IterTimerHook'),
    seed=dict(type='mmvtr.ExactSeedHook'),
    logger=dict(type='LoggerHook', interval=20),
    param_scheduler=dict(type='ParamSchedulerHook'),
    # The last epoch (to resume from) and the best one on val (to test).
    checkpoint=dict(
        type='mmvtr.PlainCheckpointHook',
        interval=1,
        max_keep_ckpts=1,
        save_best='retrieval/rsum',
        rule='greater',
    ),
    sampler_seed=dict(type='DistSamplerSeedHook'),
    broken=dict(type='mmvtr.BrokenVideoHook'),
    progress=dict(type='mmvtr.ProgressHook'),
)

# `python tools/train.py` on a CPU with --launcher pytorch takes gloo instead of nccl.
env_cfg = dict(
    cudnn_benchmark=False,
    mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
    dist_cfg=dict(backend='nccl'),
)

log_level = 'INFO'
log_processor = dict(by_epoch=True, window_size=20)
visualizer = dict(type='Visualizer', vis_backends=[dict(type='LocalVisBackend')])

randomness = dict(seed=0)
load_from = None
resume = False

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05, fused=True),
    clip_grad=dict(max_norm=1.0),
    # DVTR's slope and bias are two numbers that have far to go in few steps.
    paramwise_cfg=dict(custom_keys={'supervision': dict(lr_mult=10.0, decay_mult=0.0)}),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=4)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=2, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=2, eta_min_ratio=0.01, convert_to_iter_based=True),
]
fit_warmup = True  # where a training of one or two epochs is asked for, a tenth of it
