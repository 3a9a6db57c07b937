# ARL on planted clips of three moments, from the clips themselves: 18 frames, at least 5 a moment.
# A step of 32 clips and 192 captions took 1.2 s on one CPU core, and a batch 0.25 s to load in
# another: 8 minutes of training, 2 more for the passes before each epoch of the second half.
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/planted_untrimmed_features.py',
    '_base_/arl_features.py',
]

clip = dict(
    embed_dim=128,
    vision_cfg=dict(layers=2, width=64, head_width=32, patch_size=8, image_size=64),
    text_cfg=_base_.words,
)
frames = [dict(type='LoadVideo', sampling='uniform', num_frames=18)]
loader = dict(batch_size=32, num_workers=1)
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_SumR'))
train_cfg = dict(max_epochs=10, val_interval=5)
model = dict(
    encoder=dict(
        encoder=dict(
            frames=dict(_delete_=True, type='OpenCLIPFrames', model=clip),
            max_frames=18,
        )
    ),
    supervision=dict(type='ARLSupervision', dim=128, warmup=0.75, cap=1),
)
custom_hooks = [dict(type='mmvtr.AmbiguityHook'), dict(type='mmvtr.MomentsHook')]
train_dataloader = dict(
    **loader,
    dataset=dict(video_pipeline=[*frames, dict(type='RandomRoll')]),
    persistent_workers=True,
)
val_dataloader = dict(**loader, dataset=dict(video_pipeline=frames))
test_dataloader = dict(**loader, dataset=dict(video_pipeline=frames))
