# DL-DKD (Dong et al., ICCV 2023) with the soft labels of DL-DKD++, on stored features (I3D, on TVR
# beside ResNet152; RoBERTa's words).  A branch inherits what CLIP says of texts and frames, whose
# vectors are stored, the other explores.  Widths of the features are the dataset's:
# model.encoder.encoder.{frames,text}.in_dim.  Contrasts read inner products as they are.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='TwoBranches',
        names=('inherit', 'explore'),
        encoder=dict(
            type='DLDKDEncoder',
            frames=dict(type='FeatureFrames'),
            text=dict(type='FeatureWords'),
            dim=384,
            heads=4,
            dropout=0.2,
            max_frames=128,
            max_words=30,
        ),
    ),
    similarity=dict(
        type='BestFrameSimilarity', levels=('inherit', 'explore'), weights=(0.7, 0.3), dots=True
    ),
    temperature=dict(type='Temperature', init=1.0),
    supervision=dict(type='StoredFrameTeacher', name='clip', epochs=120),
    losses=dict(
        # Of each branch: loss_weight 2 makes a sum of the mean over both.
        t2v=dict(
            type='RankingLoss',
            reads=('inherit', 'explore'),
            margin=0.2,
            direction='t2v',
            negatives='random',
            pool=20,
            loss_weight=2.0,
        ),
        v2t=dict(
            type='RankingLoss',
            reads=('inherit', 'explore'),
            margin=0.2,
            direction='v2t',
            positive='mean',
            negatives='hardest',
            loss_weight=2.0,
        ),
        inherit_nce=dict(
            type='SoftLabelContrastiveLoss',
            reads=('inherit_dot',),
            follows='teacher',
            epochs=120,
            loss_weight=0.04,
        ),
        explore_nce=dict(
            type='SoftLabelContrastiveLoss',
            reads=('explore_dot',),
            follows='self',
            epochs=120,
            loss_weight=0.04,
        ),
    ),
    objectives=dict(
        distillation=dict(
            type='FrameDistillation',
            level='inherit',
            teacher='clip',
            temperature=0.2,
            loss_weight=0.1,
            fall='exp',
            rate=0.95,
            epochs=120,
        )
    ),
)
