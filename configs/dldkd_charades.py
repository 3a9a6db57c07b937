# DL-DKD++ on Charades-STA, I3D and RoBERTa features; the teacher is CLIP, from stored
# vectors of frames and sentences (docs/arl.md).
_base_ = ['_base_/prvr.py', '_base_/prvr_charades.py', '_base_/dldkd_i3d.py']

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=1024), text=dict(in_dim=1024), dropout=0.15))
)
train_dataloader = dict(  # a batch is 128 videos and about 300 captions
    dataset=dict(
        video_pipeline=[
            dict(type='LoadFeatures', path='data/charades/FeatureData/i3d_rgb_lgi'),
            dict(type='PoolFeatures', num_frames=128, normalise=True),
            dict(type='LoadFrameVectors', stores=dict(clip='data/charades/teacher/frames.hdf5')),
        ],
        text_pipeline=[
            dict(
                type='LoadTextFeatures',
                path='data/charades/TextData/roberta_charades_query_feat.hdf5',
                max_words=30,
                normalise=True,
            ),
            dict(
                type='LoadVectors',
                side='text',
                stores=dict(clip='data/charades/teacher/sentences.hdf5'),
            ),
        ],
    )
)
optim_wrapper = dict(optimizer=dict(lr=0.00024))
train_cfg = dict(max_epochs=120)  # there until ten epochs bring nothing
