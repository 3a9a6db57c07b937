# 5 epochs over all captions, warm-up 10 %, cosine, as CLIP4Clip's code has them.  It and its kin
# state 1e-7 for CLIP and 1e-4 for new modules.  1e-7 belongs to codes that hold CLIP's weights in
# fp16, where it moves them far more than its name says (docs/dvtr.md).  With fp32 weights, as here,
# 1e-6 is what trains.  `--amp` computes in bfloat16 and leaves the weights in fp32.  With what
# default_runtime.py says.  The optimizers that papers and codes name: dvtr/dvtr_c2v_msrvtt_adam.py
# and dvtr/dvtr_c2v_msrvtt_bert_adam.py.
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
    constructor='mmvtr.MatrixDecayConstructor',  # no decay of norms, biases, positions, temperature
    optimizer=dict(type='AdamW', lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.2),
    clip_grad=dict(max_norm=1.0),
    paramwise_cfg=dict(
        custom_keys={
            'encoder.frames': dict(lr_mult=0.01),
            'encoder.text': dict(lr_mult=0.01),
            'temperature': dict(lr_mult=0.01),  # where it is trained, as CLIP
        },
    ),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=5, val_interval=1)
# In shares of the run.
param_scheduler = [dict(type='mmvtr.WarmupCosineLR', warmup=0.1, by_epoch=False)]
# Pairs a step, over all processes, that the learning rate is for: tools/train.py refuses others.
auto_scale_lr = dict(enable=False, base_batch_size=128)
