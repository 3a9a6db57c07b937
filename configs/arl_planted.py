# ARL on planted clips of three moments, from the clips themselves: 18 frames, at least 5 a moment.
# A step of 32 clips and 192 captions took 1.2 s on one CPU core, and a batch 0.25 s to load in
# another: 8 minutes of training, 2 more for the passes before each epoch of the second half.
_base_ = ['arl_planted_features.py']

clip = dict(
    embed_dim=128,
    vision_cfg=dict(layers=2, width=64, head_width=32, patch_size=8, image_size=64),
    text_cfg={{_base_.words}},
)
model = dict(
    encoder=dict(
        encoder=dict(
            frames=dict(_delete_=True, type='OpenCLIPFrames', model=clip),
            max_frames=18,
        ),
    ),
)
frames = [dict(type='LoadVideo', sampling='uniform', num_frames=18)]
loader = dict(batch_size=32, num_workers=1)
train_dataloader = dict(
    **loader,
    persistent_workers=True,
    dataset=dict(video_pipeline=[*frames, dict(type='RandomRoll')]),
)
val_dataloader = dict(**loader, dataset=dict(video_pipeline=frames))
test_dataloader = dict(**loader, dataset=dict(video_pipeline=frames))
train_cfg = dict(max_epochs=10, val_interval=5)
