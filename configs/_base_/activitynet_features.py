# ActivityNet paragraphs from frame features in place of videos, for SSB: as msrvtt_1ka_features.py,
# but 64 rows and 64 tokens, which NCL states for CLIP4Clip (App. B).
_base_ = ['activitynet.py']

store = 'data/activitynet/features/'
known = dict(
    video_pipeline=[
        dict(
            type='LoadFeatures', path=[store + 'r2plus1d.h5', store + 'resnet152.h5'], num_frames=64
        )
    ],
    text_pipeline=[dict(type='HFTokenize', model='t5-base', max_length=64)],
)
train_dataloader = dict(batch_size=64, dataset=known)
test_dataloader = dict(batch_size=64, dataset=known)
