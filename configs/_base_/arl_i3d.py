# ARL on stored features (I3D, on TVR beside ResNet152; RoBERTa's words).  "Typical parameters as
# GMMFormer" (Sec. Implementation Details): 384 dimensions, 4 heads, dropout .2 (on Charades-STA
# .15), up to 128 frames and 30 words.  Widths of the features are the dataset's:
# model.encoder.encoder.{frames,text}.in_dim.  Scores are Eq. 13.  The paper names no temperature,
# lambda_nce, m, m_a, warm-up or sampling; these follow its lineage or are ours (docs/arl.md).
# lambda_nce is GMMFormer's .02 of ActivityNet and Charades-STA; on TVR its clip branch has .05.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='TwoBranches',
        encoder=dict(
            type='ARLEncoder',
            frames=dict(type='FeatureFrames'),
            text=dict(type='FeatureWords'),
            dim=384,
            heads=4,
            dropout=0.2,
            max_frames=128,
            max_words=30,
        ),
    ),
    similarity=dict(type='BestFrameSimilarity', levels=('a', 'b')),
    temperature=dict(type='Temperature', init=0.07),
    supervision=dict(
        type='ARLSupervision',
        dim=384,
        warmup_epochs=5,  # "a few"
        cap=1,
        frame_u_spread=0.0,  # frames as common as the mean pair ...
        frame_slack=0.2,  # ... and within the margin of the best: what the triplet would push
        lambda_nce=0.02,
    ),
    losses=dict(
        nce=dict(  # Eq. 8-10
            type='ContrastiveLoss', reads=('a', 'b'), form='own_pair', loss_weight=0.04
        ),
        triplet=dict(  # Eq. 11-12
            type='RankingLoss',
            reads=('a', 'b'),
            margin=0.2,
            negatives='random',
            pool=20,
            pool_from=0.2,
            average='anchors',
            loss_weight=2.0,
        ),
    ),
)
custom_hooks = [dict(type='mmvtr.AmbiguityHook'), dict(type='mmvtr.MomentsHook')]
