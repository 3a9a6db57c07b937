# GMMFormer on stored features (I3D, on TVR beside ResNet152; RoBERTa's words).  Widths of the
# features are the dataset's: model.encoder.{frames,text}.in_dim.  Charades-STA takes dropout .15.
_base_ = ['losses_mssl.py']

model = dict(
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
)
custom_hooks = [dict(type='mmvtr.MomentsHook')]
