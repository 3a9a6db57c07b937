# ActivityNet Captions as partially relevant video retrieval: 9,043 videos to train on, 4,430 to
# test on, 3.6 captions each; MS-SL's features, I3D and RoBERTa, both 1,024 wide; docs/data.md.
_base_ = ['prvr.py']

frames = [
    dict(type='LoadFeatures', path='data/activitynet/FeatureData/i3d'),
    dict(type='PoolFeatures', num_frames=128, normalise=True),
]
words = [
    dict(
        type='LoadTextFeatures',
        path='data/activitynet/TextData/roberta_activitynet_query_feat.hdf5',
        max_words=30,
        normalise=True,
    )
]

train_dataloader = dict(  # a batch is 128 videos and about 480 captions
    dataset=dict(type='mmvtr.ActivityNetMomentsDataset', video_pipeline=frames, text_pipeline=words)
)
test_dataloader = dict(
    dataset=dict(type='mmvtr.ActivityNetMomentsDataset', video_pipeline=frames, text_pipeline=words)
)
