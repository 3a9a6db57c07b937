# DL-DKD++ on TVR, I3D and RoBERTa features; the teacher is CLIP, from stored
# vectors of frames and sentences (docs/arl.md).
_base_ = ['_base_/prvr.py', '_base_/prvr_tvr.py', '_base_/dldkd_i3d.py']

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=3072), text=dict(in_dim=768))),
    losses=dict(t2v=dict(margin=0.1), v2t=dict(margin=0.1)),
)
train_dataloader = dict(  # a batch is 128 clips and about 640 captions
    dataset=dict(
        video_pipeline=[
            dict(type='LoadFeatures', path='data/tvr/FeatureData/i3d_resnet'),
            dict(type='PoolFeatures', num_frames=128, normalise=True),
            dict(type='LoadFrameVectors', stores=dict(clip='data/tvr/teacher/frames.hdf5')),
        ],
        text_pipeline=[
            dict(
                type='LoadTextFeatures',
                path='data/tvr/TextData/roberta_tvr_query_feat.hdf5',
                max_words=30,
                normalise=True,
            ),
            dict(
                type='LoadVectors', side='text', stores=dict(clip='data/tvr/teacher/sentences.hdf5')
            ),
        ],
    )
)
optim_wrapper = dict(optimizer=dict(lr=0.0003))
train_cfg = dict(max_epochs=120)  # there until ten epochs bring nothing
