# The planted corpus where length tells of the action: in train and val 90 % of the clips of half
# the actions are long and 90 % of the others short; in test it is the other way round.  Every
# caption names the action.  Cached features of 12 frames (docs/data.md): a training takes minutes.
corpus = dict(
    type='mmvtr.PlantedDataset', data_root='data/planted', general=0.0, length_confound=0.9
)
pipelines = dict(
    video_pipeline=[dict(type='LoadFeatures', path='data/planted_features/confound90')],
    text_pipeline=[dict(type='WordTokenize', vocab_file='data/planted/vocab.txt')],
)
made_by = 'python projects/lab/evidence/planted_features.py confound90'
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
val_evaluator = [dict(type='mmvtr.RetrievalMetric')]
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(
        type='mmvtr.LengthBiasMetric',
        min_gap=8,
        train=dict(**corpus, split='train', video_pipeline=[], text_pipeline=[]),
    ),
]
