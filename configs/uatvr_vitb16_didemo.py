# UATVR over CLIP ViT-B/16 on DiDeMo paragraphs (UATVR Tab. 8).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/didemo.py', '_base_/uatvr_vitb32.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-16-quickgelu', grad_checkpointing=True),
        text=dict(model='ViT-B-16-quickgelu'),
        max_frames=64,
        max_words=64,
    )
)
train_dataloader = dict(batch_size=64)
val_evaluator = [*_base_.val_evaluator, dict(type='mmvtr.UncertaintyMetric')]
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.UncertaintyMetric')]
optim_wrapper = dict(optimizer=dict(lr=5e-5))
auto_scale_lr = dict(base_batch_size=64)
