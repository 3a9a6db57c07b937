# MMT (Gabeur et al., ECCV 2020).  The paper's: width 512, 4 layers of 4 heads, 3,072 inside,
# dropout .1, BERT for texts, margin .05 over all negatives; Adam at 5e-5, times .95 every 1,000
# steps; batch 32.  Ours: the cased BERT-base; a mean over all terms, where the paper sums over
# negatives and directions (a factor of 62, which Adam does not see); 32 seconds in the table of
# times.  Which experts there are, and their widths, is the dataset's: model.encoder.experts.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='MMTEncoder',
        text=dict(type='TransformersText', model='bert-base-cased', dim=None),
        dim=512,
        layers=4,
        heads=4,
        feedforward=3072,
        dropout=0.1,
        max_seconds=32,
    ),
    similarity=dict(type='ExpertSimilarity'),
    losses=dict(ranking=dict(type='RankingLoss', negatives='all', margin=0.05)),
)

optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='Adam', lr=5e-5),
)
param_scheduler = [dict(type='StepLR', by_epoch=False, step_size=1000, gamma=0.95)]
auto_scale_lr = dict(enable=False, base_batch_size=32)  # pairs a step, over all processes
