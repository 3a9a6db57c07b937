# MS-SL on stored features (I3D, on TVR beside ResNet152; RoBERTa's words).  Widths of the features
# are the dataset's: model.encoder.{frames,text}.in_dim.  Charades-STA takes weights (.5, .5).  Its
# contrastive losses read inner products as they are ('clip_dot', 'frame_dot'): temperature 1.
model = dict(
    type='VideoTextRetriever',
    data_preprocessor=dict(type='VideoTextDataPreprocessor'),
    encoder=dict(
        type='MSSLEncoder',
        frames=dict(type='FeatureFrames'),
        text=dict(type='FeatureWords'),
        dim=384,
        heads=4,
        dropout=0.1,
        clips=32,
        max_frames=128,
        max_words=30,
    ),
    similarity=dict(type='MSSLSimilarity', dim=384, clips=32, weights=(0.7, 0.3)),
    temperature=dict(type='Temperature', init=1.0),
)
