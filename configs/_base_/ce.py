# Collaborative Experts (CE, Liu et al., BMVC 2019) on MSR-VTT.  The released
# config's: nine experts and their widths, D = 768, three layers of g and none of h, self included,
# clusters of words, OCR, audio and speech, words as vectors of OpenAI-GPT (768), margin .0938 over
# all negatives.  Ours, not the released code's: all experts are gated at once, and neither padding
# nor missing experts are read or counted (CEEncoder: sequential, padded).  Another dataset has its
# own clusters, margin and widths: model.encoder.{experts,clusters,text_clusters,text_ghosts}.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='CEEncoder',
        text=dict(type='FeatureWords', in_dim=768),
        experts={
            'audio': 128,  # VGGish
            'face': 512,
            'i3d.i3d.0': 1024,
            'imagenet.resnext101_32x48d.0': 2048,
            'imagenet.senet154.0': 2048,
            'ocr': 300,  # words read, word2vec
            'r2p1d.r2p1d-ig65m.0': 512,
            'scene.densenet161.0': 2208,
            'speech': 300,  # words said, word2vec
        },
        clusters=dict(ocr=43, audio=8, speech=19),
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

# Ranger (RAdam and Lookahead), lr times .95 each epoch, the best geometric mean of t2v R@1, 5, 10
# on val (an entry's default_hooks).  Theirs is a decay of all parameters; here, as everywhere in
# this repository, of matrices.
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='mmvtr.Ranger', lr=0.1, weight_decay=1e-3),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=1)
param_scheduler = [dict(type='ExponentialLR', gamma=0.95)]
