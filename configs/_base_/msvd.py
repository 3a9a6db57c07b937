# MSVD: 1,200 / 100 / 670 clips, every one of about 41 captions a text (docs/data.md).  12 frames,
# one a second at the most, and 32 words, as CLIP4Clip and its followers read.
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
        type='mmvtr.MSVDDataset', split='train', video_pipeline=frames, text_pipeline=words
    ),
)
val_dataloader = dict(
    **loader,
    batch_size=64,
    dataset=dict(type='mmvtr.MSVDDataset', split='val', video_pipeline=frames, text_pipeline=words),
)
test_dataloader = dict(
    **loader,
    batch_size=64,
    dataset=dict(
        type='mmvtr.MSVDDataset', split='test', video_pipeline=frames, text_pipeline=words
    ),
)
val_cfg = test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric')]
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.NormalisationMetric'),  # NCL Fig. 2 and 3
]
