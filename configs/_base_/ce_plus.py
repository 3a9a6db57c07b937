# CE+ (TeachText, Croitoru et al., ICCV 2021): CE on seven re-extracted experts, words as vectors of
# a fine-tuned GPT2-xl (1600).  MSVD has neither audio nor speech.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='CEEncoder',
        text=dict(type='FeatureWords', in_dim=1600),
        experts={
            'audio': 128,  # VGGish
            'imagenet.resnext101_32x48d.0': 2048,
            'imagenet.senet154.0': 2048,
            'r2p1d.r2p1d-ig65m.0': 512,
            'r2p1d.r2p1d-ig65m-kinetics.0': 512,
            'scene.densenet161.0': 2208,
            'speech': 300,  # words said, word2vec
        },
        clusters=dict(audio=8, speech=19),
        text_clusters=28,
        text_ghosts=1,
        dim=768,
        gating='pairwise',
        g_layers=3,
        h_layers=0,
        include_self=True,
    ),
    similarity=dict(type='ExpertSimilarity'),
    losses=dict(ranking=dict(type='RankingLoss', negatives='all', margin=0.0938)),
)

# As CE, with RAdam.  The package of that name, which they use, decouples the decay.
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='RAdam', lr=1e-3, weight_decay=1e-5, decoupled_weight_decay=True),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=1)
param_scheduler = [dict(type='ExponentialLR', gamma=0.95)]
