# ARL's two branches (arl_i3d.py), small: stored features of frames, 128 wide, and a text tower that
# starts from nothing.  More weight on the contrast, which learns faster.
words = dict(context_length=32, vocab_size=78, width=128, heads=4, layers=2)
clip = dict(embed_dim=128, vision_cfg=dict(layers=1, width=64, image_size=64), text_cfg=words)
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='TwoBranches',
        encoder=dict(
            type='ARLEncoder',
            frames=dict(type='FeatureFrames', in_dim=128),
            text=dict(type='OpenCLIPText', model=clip),
            dim=128,
            heads=4,
            dropout=0.1,
            max_frames=24,
            max_words=32,
        ),
    ),
    similarity=dict(type='BestFrameSimilarity', levels=('a', 'b')),
    temperature=dict(type='Temperature', init=0.07),
    losses=dict(
        nce=dict(type='ContrastiveLoss', reads=('a', 'b'), form='own_pair'),
        triplet=dict(type='RankingLoss', reads=('a', 'b'), margin=0.2, average='anchors'),
    ),
)
