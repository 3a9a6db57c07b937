# What MS-SL and GMMFormer train on: two branches ('clip', 'frame'), each with an InfoNCE and a
# margin with negatives drawn from the hardest.  The InfoNCE reads inner products as they are
# ('clip_dot', 'frame_dot'): temperature 1.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
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
