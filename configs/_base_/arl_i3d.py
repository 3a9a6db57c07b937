# ARL's two encoders on stored features (I3D, on TVR beside ResNet152; RoBERTa's words), scored by
# Eq. 13.  Its "typical parameters" are GMMFormer's: 384 dimensions, 4 heads, dropout .2 (.15 on
# Charades-STA), up to 128 frames and 30 words.  Widths of the features are the dataset's:
# model.encoder.encoder.{frames,text}.in_dim.
model = dict(
    type='VideoTextRetriever',
    data_preprocessor=dict(type='VideoTextDataPreprocessor'),
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
    temperature=dict(type='Temperature', init=0.07),  # the paper writes none
)
