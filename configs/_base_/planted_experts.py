# The planted corpus by experts in place of pixels (mmvtr/datasets/planted_corpus/experts.py): the
# background, how objects look, what they do, words that somebody says of them; object, audio and
# speech are missing from 10, 30 and 50 % of the clips.  The corpus and the features are made when
# the dataset is first built.  Word vectors for LoadTextFeatures are in data/planted_experts/words.
stores = 'data/planted_experts/'
experts = dict(
    audio=dict(path=stores + 'audio', dim=32, seconds=0.5),
    object=dict(path=stores + 'object', dim=64, seconds=None),
    scene=dict(path=stores + 'scene', dim=32, seconds=None),
    speech=dict(path=stores + 'speech', dim=64, seconds=None),
)
corpus = dict(
    type='mmvtr.PlantedDataset', data_root='data/planted', experts=dict(path='data/planted_experts')
)
pipelines = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, max_tokens=10)],
    text_pipeline=[dict(type='WordTokenize', vocab_file='data/planted/vocab.txt')],
)
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
