# TVR as partially relevant video retrieval: 17,435 clips to train on, 2,179 to test on, with five
# captions each; MS-SL's features, I3D + ResNet152 (3,072 wide) and RoBERTa (768); docs/data.md.
_base_ = ['prvr.py']

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

train_dataloader = dict(  # a batch is 128 clips and about 640 captions
    dataset=dict(type='mmvtr.TVRDataset', video_pipeline=frames, text_pipeline=words)
)
test_dataloader = dict(
    dataset=dict(type='mmvtr.TVRDataset', video_pipeline=frames, text_pipeline=words)
)
