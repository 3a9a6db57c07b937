# MSR-VTT 1k-A from frame features in place of videos (docs/data.md), for SSB: motion of R(2+1)D-34
# (IG65M, 512 wide) and appearance of ResNet152 (ImageNet, 2048 wide), row by row side by side.
# Both stores need equally many rows a video (say, one a second).  Features, T5 and split are NCL's
# (Sec. 4, App. C); 30 rows, 32 tokens and batch 64 are our choice.
frames = [
    dict(
        type='LoadFeatures',
        path=['data/msrvtt/features/r2plus1d.h5', 'data/msrvtt/features/resnet152.h5'],
        num_frames=30,
    )
]
words = [dict(type='HFTokenize', model='t5-base', max_length=32)]
loader = dict(num_workers=8, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(
    **loader,
    batch_size=64,
    persistent_workers=True,
    sampler=dict(type='EpochSampler'),
    dataset=dict(
        type='MSRVTTDataset', split='1kA_train9k', video_pipeline=frames, text_pipeline=words
    ),
)
test_dataloader = dict(
    **loader,
    batch_size=64,
    dataset=dict(
        type='MSRVTTDataset', split='1kA_test', video_pipeline=frames, text_pipeline=words
    ),
)
test_cfg = dict(type='RetrievalLoop')
test_evaluator = [dict(type='RetrievalMetric')]
# 1k-A has no validation set: the last epoch is tested, and nothing is chosen on the test set.
