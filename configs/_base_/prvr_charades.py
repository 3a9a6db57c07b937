# Charades-STA as partially relevant video retrieval: 5,338 videos to train on, 1,334 to test on,
# 2.4 captions each; MS-SL's features, I3D and RoBERTa, both 1,024 wide; docs/data.md.
frames = [
    dict(type='LoadFeatures', path='data/charades/FeatureData/i3d_rgb_lgi'),
    dict(type='PoolFeatures', num_frames=128, normalise=True),
]
words = [
    dict(
        type='LoadTextFeatures',
        path='data/charades/TextData/roberta_charades_query_feat.hdf5',
        max_words=30,
        normalise=True,
    )
]

loader = dict(num_workers=4, batch_size=128, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(  # a batch is 128 videos and about 300 captions
    **loader,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(
        type='mmvtr.CharadesSTADataset',
        split='train',
        epoch_unit='video_with_all_texts',
        video_pipeline=frames,
        text_pipeline=words,
    ),
)
test_dataloader = dict(
    **loader,
    dataset=dict(
        type='mmvtr.CharadesSTADataset', split='test', video_pipeline=frames, text_pipeline=words
    ),
)
