# The planted corpus: real clips of moving shapes, made on first use (docs/data.md).
corpus = dict(type='mmvtr.PlantedDataset', data_root='data/planted')
text_pipeline = [dict(type='WordTokenize', vocab_file='data/planted/vocab.txt')]

train_dataloader = dict(
    batch_size=64,
    num_workers=1,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    collate_fn=dict(type='mmvtr.collate_retrieval'),
    dataset=dict(
        **corpus,
        split='train',
        epoch_unit='video',  # one caption of each video an epoch
        video_pipeline=[
            dict(type='LoadVideo', sampling='uniform', num_frames=6),
            dict(type='RandomRoll'),
        ],
        text_pipeline=text_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=64,
    num_workers=1,
    collate_fn=dict(type='mmvtr.collate_retrieval'),
    dataset=dict(
        **corpus,
        split='val',
        video_pipeline=[dict(type='LoadVideo', sampling='uniform', num_frames=6)],
        text_pipeline=text_pipeline,
    ),
)
test_dataloader = val_dataloader | dict(dataset=val_dataloader['dataset'] | dict(split='test'))

val_cfg = dict(type='mmvtr.RetrievalLoop')
test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.SemanticMetric')]
test_evaluator = val_evaluator
