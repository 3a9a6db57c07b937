# CLIP4Clip (seqTransf) over CLIP ViT-B/16 on MSR-VTT 1k-A, trained as UATVR: row "CLIP4Clip" of its
# Tab. 1 and 2.  162.3 M parameters are those of seqTransf; meanP has 149.6 M.
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_1ka.py', '_base_/clip4clip_vitb32.py']

model = dict(
    encoder=dict(
        # 64 x 12 frames keep 114 GB of activations without (--amp: 57), 8 x 12 keep 14 (7).
        frames=dict(model='ViT-B-16-quickgelu', grad_checkpointing=True),
        text=dict(model='ViT-B-16-quickgelu'),
        aggregator='transformer',
        temporal_layers=4,
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-5))
auto_scale_lr = dict(base_batch_size=64)
