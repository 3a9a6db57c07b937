# UATVR over CLIP ViT-B/16 on MSVD (UATVR Tab. 9).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msvd.py', '_base_/uatvr_vitb32.py']

model = dict(
    encoder=dict(
        # 64 x 12 frames keep 114 GB of activations without (--amp: 57), 8 x 12 keep 14 (7).
        frames=dict(model='ViT-B-16-quickgelu', grad_checkpointing=True),
        text=dict(model='ViT-B-16-quickgelu'),
    )
)
train_dataloader = dict(batch_size=64)
val_evaluator = test_evaluator = [*_base_.val_evaluator, dict(type='mmvtr.UncertaintyMetric')]
optim_wrapper = dict(optimizer=dict(lr=5e-5))
auto_scale_lr = dict(base_batch_size=64)
