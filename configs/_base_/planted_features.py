# The planted corpus with 60 % general captions, from cached frame features: a training takes about
# a minute, which is how methods are compared over seeds.  The features are made
# by `python projects/lab/evidence/planted_features.py`, with a tower trained on a sister corpus.
corpus = dict(type='mmvtr.PlantedDataset', data_root='data/planted', general=0.6)
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
    dataset=dict(**corpus, **pipelines, split='train', epoch_unit='video'),
)
val_dataloader = dict(
    batch_size=64, collate_fn=collate_fn, dataset=dict(**corpus, **pipelines, split='val')
)
test_dataloader = dict(
    batch_size=64, collate_fn=collate_fn, dataset=dict(**corpus, **pipelines, split='test')
)

val_cfg = dict(type='mmvtr.RetrievalLoop')
test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.SemanticMetric')]
test_evaluator = val_evaluator
