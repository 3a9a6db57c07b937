# How MS-SL and its followers train and test partially relevant retrieval: a batch is 128 videos
# with all of their texts; BertAdam with its own b2 = .999, where CLIP4Clip sets .98; 100 epochs,
# warm-up over 1 % of the steps, then linear.  They stop after 10 epochs without progress on the set
# that they test on; here all 100 are run.  With what
# default_runtime.py says; a dataset's file adds its videos and texts.
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

test_cfg = dict(type='mmvtr.RetrievalLoop')
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric', recall_at=(1, 5, 10, 100), v2t_protocols=()),
    dict(type='mmvtr.MomentRatioMetric'),
]
# The field chooses its epoch on the set that it tests on; here the last epoch is tested.

optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='mmvtr.BertAdam', lr=2.5e-4, betas=(0.9, 0.999), weight_decay=0.01),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=1)
param_scheduler = [dict(type='mmvtr.WarmupLinearLR', warmup=0.01, by_epoch=False)]
auto_scale_lr = dict(enable=False, base_batch_size=128)  # videos a step, over all processes
