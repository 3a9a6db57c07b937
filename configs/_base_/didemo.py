# DiDeMo: 8,392 / 1,065 / 1,004 videos, each with one paragraph (docs/data.md).  A frame a second of
# the first 30 s gives at most 30 of the 64 frames that papers state.
frames = [
    dict(type='LoadVideo', sampling='per_second', num_frames=64),
    dict(type='ResizeShortSide', size=224),
    dict(type='CenterCrop', size=224),
]
words = [dict(type='CLIPTokenize', context_length=64)]
loader = dict(num_workers=8, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(
    **loader,
    batch_size=128,  # pairs of up to 30 frames, on one process; on 8 processes 16 each
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(
        type='mmvtr.DiDeMoDataset', split='train', video_pipeline=frames, text_pipeline=words
    ),
)
val_dataloader = dict(
    **loader,
    batch_size=16,
    dataset=dict(
        type='mmvtr.DiDeMoDataset', split='val', video_pipeline=frames, text_pipeline=words
    ),
)
test_dataloader = dict(
    **loader,
    batch_size=16,
    dataset=dict(
        type='mmvtr.DiDeMoDataset', split='test', video_pipeline=frames, text_pipeline=words
    ),
)
val_cfg = test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = test_evaluator = [dict(type='mmvtr.RetrievalMetric')]
