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
