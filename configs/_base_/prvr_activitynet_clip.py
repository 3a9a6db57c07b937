# prvr_activitynet.py from features of CLIP ViT-L/14 (768 wide, video and text), one hdf5 file each.
_base_ = ['prvr_activitynet.py']

pipelines = dict(
    video_pipeline=[
        dict(type='LoadFeatures', path='data/activitynet/FeatureData/activitynet_clip_L14.h5'),
        dict(type='PoolFeatures', num_frames=128, normalise=True),
    ],
    text_pipeline=[
        dict(
            type='LoadTextFeatures',
            path='data/activitynet/TextData/activitynet_clip_L14.h5',
            max_words=77,
            normalise=True,
        )
    ],
)
train_dataloader = dict(dataset=pipelines)
test_dataloader = dict(dataset=pipelines)
