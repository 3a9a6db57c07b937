# TVR as partially relevant video retrieval: 17,435 clips to train on, 2,179 to test on, with five
# captions each; MS-SL's features, I3D + ResNet152 (3,072 wide) and RoBERTa (768); docs/data.md.
frames = [
    dict(type='LoadFeatures', path='data/tvr/FeatureData/i3d_resnet'),
    dict(type='PoolFeatures', num_frames=128, normalise=True),
]
words = [
    dict(
        type='LoadTextFeatures',
        path='data/tvr/TextData/roberta_tvr_query_feat.hdf5',
        max_words=30,
        normalise=True,
    )
]

loader = dict(num_workers=4, batch_size=128, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(  # a batch is 128 clips and about 640 captions
    **loader,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(
        type='mmvtr.TVRDataset',
        split='train',
        epoch_unit='video_with_all_texts',
        video_pipeline=frames,
        text_pipeline=words,
    ),
)
test_dataloader = dict(
    **loader,
    dataset=dict(type='mmvtr.TVRDataset', split='test', video_pipeline=frames, text_pipeline=words),
)
