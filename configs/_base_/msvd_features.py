# MSVD from frame features in place of videos, for SSB: as msrvtt_1ka_features.py.
_base_ = ['msvd.py']

store = 'data/msvd/features/'
known = dict(
    video_pipeline=[
        dict(
            type='LoadFeatures', path=[store + 'r2plus1d.h5', store + 'resnet152.h5'], num_frames=30
        )
    ],
    text_pipeline=[dict(type='HFTokenize', model='t5-base', max_length=32)],
)
train_dataloader = dict(batch_size=64, dataset=known)
val_dataloader = test_dataloader = dict(dataset=known)
