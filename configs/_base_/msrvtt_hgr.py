# MSR-VTT 1k-A (docs/data.md) as HGR reads it: ResNet152 features (2,048 wide), words with a graph
# of verbs and nouns; classes of verbs and nouns, found by rules, say how relevant any pair is.
frames = [
    dict(type='LoadFeatures', path='data/msrvtt/features/resnet152.h5'),
    dict(type='TrimFeatures', num_frames=20),
]
words = [
    dict(
        type='PartOfSpeechGraph',
        vocab_file='data/msrvtt/word2int.json',
        method='rules',
        links=True,
    )
]
loader = dict(num_workers=4, collate_fn=dict(type='mmvtr.collate_retrieval'))
common = dict(
    type='mmvtr.MSRVTTDataset',
    video_pipeline=frames,
    text_pipeline=words,
    records=dict(classes=dict(type='CaptionClasses', parser='rules')),
)

train_dataloader = dict(
    **loader,
    batch_size=64,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(**common, split='1kA_train9k'),
)
test_dataloader = dict(**loader, batch_size=64, dataset=dict(**common, split='1kA_test'))
test_cfg = dict(type='mmvtr.RetrievalLoop')
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.RelevanceMetric'),
    dict(  # min_gap: seconds
        type='mmvtr.LengthBiasMetric', min_gap=1, train=dict(**common, split='1kA_train9k')
    ),
]
# 1k-A has no validation set: the last epoch is tested, and nothing is chosen on the test set.
