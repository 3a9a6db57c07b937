# The planted corpus with three moments a clip, each told of by captions of its own, from cached
# features of 24 frames a clip, at least 6 a moment.  docs/data.md says how the features are made.
corpus = dict(
    type='mmvtr.PlantedDataset', data_root='data/planted', untrimmed=3, captions=6, test_captions=3
)
pipelines = dict(
    video_pipeline=[dict(type='LoadFeatures', path='data/planted_features/untrimmed')],
    text_pipeline=[dict(type='WordTokenize', vocab_file='data/planted/vocab.txt')],
)
made_by = 'python projects/lab/evidence/planted_features.py untrimmed'
collate_fn = dict(type='mmvtr.collate_retrieval')

train_dataloader = dict(
    batch_size=64,
    sampler=dict(type='mmvtr.EpochSampler'),
    collate_fn=collate_fn,
    dataset=dict(**corpus, **pipelines, split='train', epoch_unit='video_with_all_texts'),
)
val_dataloader = dict(
    batch_size=64, collate_fn=collate_fn, dataset=dict(**corpus, **pipelines, split='val')
)
test_dataloader = dict(
    batch_size=64, collate_fn=collate_fn, dataset=dict(**corpus, **pipelines, split='test')
)

val_cfg = dict(type='mmvtr.RetrievalLoop')
test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [
    dict(type='mmvtr.RetrievalMetric', recall_at=(1, 5, 10, 100), v2t_protocols=()),
    dict(type='mmvtr.SemanticMetric'),
]
test_evaluator = val_evaluator
