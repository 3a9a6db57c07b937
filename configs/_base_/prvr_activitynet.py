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

train_dataloader = dict(
    **loader,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(
        type='mmvtr.ActivityNetMomentsDataset',
        split='train',
        epoch_unit='video_with_all_texts',  # a batch is 128 videos and about 480 captions
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
test_cfg = dict(type='mmvtr.RetrievalLoop')
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric', recall_at=(1, 5, 10, 100), v2t_protocols=()),
    dict(type='mmvtr.MomentRatioMetric'),
]
# The field chooses its epoch on the set that it tests on; here the last epoch is tested.
