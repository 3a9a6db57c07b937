# The planted corpus with unequal numbers of captions (1 to 50 a training clip, 5 on average), from
# cached frame features: a training takes about a minute.  The features are made by
# `python projects/lab/evidence/planted_features.py`, with a frame tower trained on a sister corpus.
corpus = dict(type='mmvtr.PlantedDataset', data_root='data/planted', captions=5, imbalance=0.5)
pipelines = dict(
    video_pipeline=[dict(type='LoadFeatures', path='data/planted_features/clips')],
    text_pipeline=[dict(type='WordTokenize', vocab_file='data/planted/vocab.txt')],
)
made_by = 'python projects/lab/evidence/planted_features.py clips'
collate_fn = dict(type='mmvtr.collate_retrieval')

train_dataloader = dict(
    batch_size=64,
    sampler=dict(type='mmvtr.EpochSampler'),
    collate_fn=collate_fn,
    dataset=dict(**corpus, **pipelines, split='train'),
)
val_dataloader = dict(
    batch_size=64, collate_fn=collate_fn, dataset=dict(**corpus, **pipelines, split='val')
)
test_dataloader = dict(
    batch_size=64, collate_fn=collate_fn, dataset=dict(**corpus, **pipelines, split='test')
)

val_cfg = dict(type='mmvtr.RetrievalLoop')
test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric')]
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.NormalisationMetric'),
]
