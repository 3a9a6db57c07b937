# Charades-STA as partially relevant video retrieval: 5,338 videos to train on, 1,334 to test on,
# 2.4 captions each; MS-SL's features, I3D and RoBERTa, both 1,024 wide; docs/data.md.
_base_ = ['prvr.py']

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

train_dataloader = dict(  # a batch is 128 videos and about 300 captions
    dataset=dict(type='mmvtr.CharadesSTADataset', video_pipeline=frames, text_pipeline=words)
)
test_dataloader = dict(
    dataset=dict(type='mmvtr.CharadesSTADataset', video_pipeline=frames, text_pipeline=words)
)
