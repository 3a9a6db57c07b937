# ActivityNet Captions as partially relevant video retrieval: 9,043 videos to train on, 4,430 to
# test on, 3.6 captions each; MS-SL's features, I3D and RoBERTa, both 1,024 wide; docs/data.md.
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

loader = dict(num_workers=4, batch_size=128, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(  # a batch is 128 videos and about 480 captions
    **loader,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(
        type='mmvtr.ActivityNetMomentsDataset',
        split='train',
        epoch_unit='video_with_all_texts',
        video_pipeline=frames,
        text_pipeline=words,
    ),
)
test_dataloader = dict(
    **loader,
    dataset=dict(
        type='mmvtr.ActivityNetMomentsDataset',
        split='test',
        video_pipeline=frames,
        text_pipeline=words,
    ),
)
