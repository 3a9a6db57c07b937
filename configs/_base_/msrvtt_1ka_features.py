# MSR-VTT 1k-A from frame features in place of videos (docs/data.md), for SSB: motion of R(2+1)D-34
# (IG65M, 512 wide) and appearance of ResNet152 (ImageNet, 2048 wide), row by row side by side.
# Both stores need equally many rows a video (say, one a second).  Features, T5 and split are NCL's
# (Sec. 4, App. C); 30 rows, 32 tokens and batch 64 are our choice.
_base_ = ['msrvtt_1ka.py']

store = 'data/msrvtt/features/'
known = dict(
    video_pipeline=[
        dict(
            type='LoadFeatures', path=[store + 'r2plus1d.h5', store + 'resnet152.h5'], num_frames=30
        )
    ],
    text_pipeline=[dict(type='HFTokenize', model='t5-base', max_length=32)],
)
train_dataloader = dict(batch_size=64, dataset=known)
test_dataloader = dict(dataset=known)
