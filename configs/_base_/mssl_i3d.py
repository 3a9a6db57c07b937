# MS-SL on stored features (I3D, on TVR beside ResNet152; RoBERTa's words).  Widths of the features
# are the dataset's: model.encoder.{frames,text}.in_dim.  Charades-STA takes weights (.5, .5).
_base_ = ['losses_mssl.py']

model = dict(
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
)
