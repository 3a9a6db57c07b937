# HiT (Liu et al., ICCV 2021), which has no public code.  Its own: two levels, momentum key
# encoders, a memory bank a level and modality, four InfoNCE terms, whose sum this is.  DVTR's (Sec.
# IV-B, V-A.2, for DVTR + HiT): BERT-base for texts, 25 tokens, 30 frames, AdamW at 2e-5, 10 %
# warm-up, cosine, batch 128, 40 epochs, tau .07.  Ours: MMT's transformer without aggregated rows,
# its first layer as the feature level (and BERT's first), m, K (no more than half the captions of
# any set), the mean of both levels as the score, the uncased BERT, AdamW's own decay of .01 on
# matrices.
model = dict(
    type='mmvtr.MomentumRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='HiTEncoder',
        text=dict(type='TransformersText', model='bert-base-uncased', dim=None),
        dim=512,
        layers=4,
        heads=4,
        feedforward=3072,
        dropout=0.1,
        feature_layer=1,
    ),
    similarity=dict(type='CosineSimilarity', levels=('feature', 'semantic')),
    temperature=dict(type='Temperature', init=0.07),
    losses=dict(
        # The mean of two levels, twice: their sum.
        t2v=dict(
            type='ContrastiveLoss',
            reads=('feature_t2v', 'semantic_t2v'),
            direction='t2v',
            loss_weight=2.0,
        ),
        v2t=dict(
            type='ContrastiveLoss',
            reads=('feature_v2t', 'semantic_v2t'),
            direction='v2t',
            loss_weight=2.0,
        ),
    ),
    bank_size=4096,
    momentum=0.999,
)

custom_hooks = [dict(type='mmvtr.MomentumHook')]
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='AdamW', lr=2e-5, weight_decay=0.01),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=40, val_interval=1)
param_scheduler = [dict(type='mmvtr.WarmupCosineLR', warmup=0.1, by_epoch=False)]
auto_scale_lr = dict(enable=False, base_batch_size=128)  # pairs a step, over all processes
