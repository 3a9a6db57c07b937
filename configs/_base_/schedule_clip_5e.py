# 5 epochs over all captions, warm-up 10 %, cosine.  DVTR states 1e-7 for CLIP and 2e-5 for its
# uncertainty module; CLIP2Video's new modules take CLIP4Clip's 1e-4.  1e-7 belongs to codes that
# hold CLIP's weights in fp16, where it moves them far more than its name says (docs/dvtr.md).
# With fp32 weights, as here, 1e-6 is what trains.  `--amp` computes in bfloat16 and leaves the
# weights in fp32.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.2),
    clip_grad=dict(max_norm=1.0),
    paramwise_cfg=dict(
        custom_keys={
            'encoder.frames': dict(lr_mult=0.01),
            'encoder.text': dict(lr_mult=0.01),
            'heads': dict(lr_mult=0.2),
            # DVTR's slope and bias: two numbers that have far to go, 1e-2 as on the planted corpus.
            'supervision': dict(lr_mult=100.0, decay_mult=0.0),
            'temperature': dict(lr_mult=0.01, decay_mult=0.0),  # where it is trained, as CLIP
        },
    ),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=5, val_interval=1)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, end=0.5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=0.5, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=128)
