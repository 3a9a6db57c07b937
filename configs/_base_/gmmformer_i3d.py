# GMMFormer on stored features (I3D, on TVR beside ResNet152; RoBERTa's words).  Widths of the
# features are the dataset's: model.encoder.{frames,text}.in_dim.  Charades-STA takes dropout .15.
# Two branches ('clip', 'frame'), each with an InfoNCE and a
# margin with negatives drawn from the hardest.  The InfoNCE reads inner products as they are
# ('clip_dot', 'frame_dot'): temperature 1.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='GMMFormerEncoder',
        frames=dict(type='FeatureFrames'),
        text=dict(type='FeatureWords'),
        dim=384,
        heads=4,
        dropout=0.2,
        clips=32,
        max_frames=128,
        max_words=30,
    ),
    similarity=dict(
        type='BestFrameSimilarity', levels=('clip', 'frame'), weights=(0.7, 0.3), dots=True
    ),
    objectives=dict(
        diversity=dict(type='QueryDiversity', margin=0.2, scale=32.0, loss_weight=0.015)
    ),
    temperature=dict(type='Temperature', init=1.0),
    losses=dict(
        clip_nce=dict(type='ContrastiveLoss', reads=('clip_dot',), loss_weight=0.04),
        frame_nce=dict(type='ContrastiveLoss', reads=('frame_dot',), loss_weight=0.08),
        # Of each branch: loss_weight 2 makes a sum of the mean over both.
        t2v=dict(
            type='RankingLoss',
            reads=('clip', 'frame'),
            margin=0.2,
            direction='t2v',
            negatives='random',
            pool=20,
            pool_from=0.2,
            loss_weight=2.0,
        ),
        v2t=dict(
            type='RankingLoss',
            reads=('clip', 'frame'),
            margin=0.2,
            direction='v2t',
            positive='mean',
            negatives='random',
            pool=1,
            pool_from=0.2,
            loss_weight=2.0,
        ),
    ),
)
custom_hooks = [dict(type='mmvtr.MomentsHook')]
