# ActivityNet Captions: 10,009 videos to train on, 4,917 of val1 to test on, each with one paragraph
# (docs/data.md).
frames = [
    dict(type='LoadVideo', sampling='per_second', num_frames=64),
    dict(type='ResizeShortSide', size=224),
    dict(type='CenterCrop', size=224),
]
words = [dict(type='CLIPTokenize', context_length=64)]
loader = dict(num_workers=8, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(
    **loader,
    batch_size=128,  # pairs of 64 frames, on one process; on 8 processes 16 each
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(
        type='mmvtr.ActivityNetDataset', split='train', video_pipeline=frames, text_pipeline=words
    ),
)
test_dataloader = dict(
    **loader,
    batch_size=16,
    dataset=dict(
        type='mmvtr.ActivityNetDataset', split='val1', video_pipeline=frames, text_pipeline=words
    ),
)
test_cfg = dict(type='mmvtr.RetrievalLoop')
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric', also_recall_at=(50,)),
    dict(type='mmvtr.NormalisationMetric'),  # NCL Fig. 2 and 3
]
# The field tests on val1 and validates on nothing: the last epoch is tested here, nothing is chosen
# on the test set.
