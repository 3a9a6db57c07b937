# YouCook2: 10,337 clips to train on, 3,492 to test on, an instruction each (docs/data.md).  S3D
# features (HowTo100M), one array a clip; verbs and nouns by rules, for graphs and relevance.
frames = [
    dict(type='LoadFeatures', path='data/youcook2/features/s3d.h5'),
    dict(type='TrimFeatures', num_frames=20),
]
words = [
    dict(
        type='PartOfSpeechGraph',
        vocab_file='data/youcook2/word2int.json',
        method='rules',
        links=True,
    )
]
loader = dict(num_workers=4, collate_fn=dict(type='mmvtr.collate_retrieval'))
common = dict(
    type='mmvtr.YouCook2Dataset',
    video_pipeline=frames,
    text_pipeline=words,
    records=dict(classes=dict(type='CaptionClasses', parser='rules')),
)

train_dataloader = dict(
    **loader,
    batch_size=64,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(**common, split='train'),
)
test_dataloader = dict(**loader, batch_size=64, dataset=dict(**common, split='val'))
test_cfg = dict(type='mmvtr.RetrievalLoop')
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.RelevanceMetric'),
    dict(
        type='mmvtr.LengthBiasMetric',
        min_gap=dict(frames=60, seconds=2),
        train=dict(**common, split='train'),
    ),
]
# The test set is not public: the last epoch is tested on val, and nothing is chosen there.
