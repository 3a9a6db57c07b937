# MSR-VTT Full: 6,513 / 497 / 2,990 videos with 20 captions each (docs/data.md).  12 frames, one a
# second at the most, and 32 words, as CLIP4Clip and its followers read.
frames = [
    dict(type='LoadVideo', sampling='per_second', num_frames=12),
    dict(type='ResizeShortSide', size=224),
    dict(type='CenterCrop', size=224),
]
words = [dict(type='CLIPTokenize', context_length=32)]
loader = dict(num_workers=8, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(
    **loader,
    batch_size=128,  # pairs, on one process; on 8 processes 16 each
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(
        type='mmvtr.MSRVTTDataset', split='full_train', video_pipeline=frames, text_pipeline=words
    ),
)
val_dataloader = dict(
    **loader,
    batch_size=64,
    dataset=dict(
        type='mmvtr.MSRVTTDataset', split='full_val', video_pipeline=frames, text_pipeline=words
    ),
)
test_dataloader = dict(
    **loader,
    batch_size=64,
    dataset=dict(
        type='mmvtr.MSRVTTDataset', split='full_test', video_pipeline=frames, text_pipeline=words
    ),
)
val_cfg = test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = test_evaluator = [dict(type='mmvtr.RetrievalMetric')]
