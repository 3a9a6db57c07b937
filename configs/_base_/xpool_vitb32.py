# X-Pool (Gorti et al., CVPR 2022) over CLIP ViT-B/32: each text pools the frames of each video for
# itself, by one layer of cross-attention whose maps begin as identities; symmetric cross-entropy at
# CLIP's own temperature, which is trained.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='CLIP4Clip',
        frames=dict(
            type='OpenCLIPFrames',
            model='ViT-B-32-quickgelu',
            pretrained='openai',
            # 128 x 12 frames keep 58 GB of activations (--amp: 29); on a GPU that has less set it.
            grad_checkpointing=False,
        ),
        text=dict(type='OpenCLIPText', model='ViT-B-32-quickgelu', pretrained='openai'),
    ),
    similarity=dict(type='XPoolSimilarity', dim=512, heads=1, dropout=0.3),
    temperature=dict(type='Temperature', init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)

# Batch 32, 5 epochs, AdamW with a decay of .2, 1e-6 for CLIP and 1e-5 for what is new, warm-up
# 10 %, cosine.  Ours: no decay of norms and biases, and an eps of 1e-6.
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='AdamW', lr=1e-5, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.2),
    clip_grad=dict(max_norm=1.0),
    paramwise_cfg=dict(
        custom_keys={
            'encoder.frames': dict(lr_mult=0.1),
            'encoder.text': dict(lr_mult=0.1),
            'temperature': dict(lr_mult=0.1),
        },
    ),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=5, val_interval=1)
param_scheduler = [dict(type='mmvtr.WarmupCosineLR', warmup=0.1, whole=False, by_epoch=False)]
auto_scale_lr = dict(enable=False, base_batch_size=32)  # pairs a step, over all processes
