# X-Pool's: batch 32, 5 epochs, AdamW with a decay of .2, 1e-6 for CLIP and 1e-5 for what is new,
# warm-up 10 %, cosine.  Ours: no decay of norms and biases, and an eps of 1e-6.
_base_ = ['schedule_clip_5e.py']

optim_wrapper = dict(
    optimizer=dict(lr=1e-5, betas=(0.9, 0.999)),
    paramwise_cfg=dict(
        custom_keys={
            'encoder.frames': dict(lr_mult=0.1),
            'encoder.text': dict(lr_mult=0.1),
            'temperature': dict(lr_mult=0.1),
        },
    ),
)
presets = None  # AdamW is its own
auto_scale_lr = dict(base_batch_size=32)
