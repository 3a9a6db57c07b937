# UATVR over CLIP ViT-B/16 on MSR-VTT 1k-A (UATVR Tab. 1, 2 and 6).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_1ka.py', '_base_/uatvr_vitb32.py']

model = dict(
    encoder=dict(
        # 64 x 12 frames keep 114 GB of activations without (--amp: 57), 8 x 12 keep 14 (7).
        frames=dict(model='ViT-B-16-quickgelu', grad_checkpointing=True),
        text=dict(model='ViT-B-16-quickgelu'),
    )
)
train_dataloader = dict(batch_size=64)
test_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.UncertaintyMetric')]
optim_wrapper = dict(optimizer=dict(lr=5e-5))
auto_scale_lr = dict(base_batch_size=64)
# `--cfg-options num_frames=16` (Tab. 5) sets all of these.
shortcuts = dict(
    num_frames=[
        'train_dataloader.dataset.video_pipeline.0.num_frames',
        'test_dataloader.dataset.video_pipeline.0.num_frames',
        'model.encoder.max_frames',
    ]
)
