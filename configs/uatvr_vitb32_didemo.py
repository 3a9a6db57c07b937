# UATVR over CLIP ViT-B/32 on DiDeMo paragraphs (UATVR Tab. 8).
# 64 words and 64 frames (Sec. 4.1), of which a frame a second fills at most 30 (docs/data.md).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/didemo.py', '_base_/uatvr_vitb32.py']

model = dict(
    encoder=dict(
        # 64 x 30 frames keep 73 GB of activations without (--amp: 36), of ViT-B/16 284 (142).
        frames=dict(grad_checkpointing=True),
        max_frames=64,
        max_words=64,
    )
)
train_dataloader = dict(batch_size=64)
val_evaluator = [*_base_.val_evaluator, dict(type='mmvtr.UncertaintyMetric')]
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.UncertaintyMetric')]
optim_wrapper = dict(optimizer=dict(lr=5e-5))
auto_scale_lr = dict(base_batch_size=64)
