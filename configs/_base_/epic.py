# EPIC-KITCHENS-100 multi-instance retrieval: 67,217 clips to train on, each with its narration;
# 9,668 clips and 3,842 narrations to test on, every narration graded against every clip.  TBN
# features (RGB, flow and audio side by side, 25 rows of 3,072;
# tools/dataset_converters/epic_tbn.py), words with a graph of the annotated verb and nouns;
# docs/data.md.
frames = [
    dict(type='LoadFeatures', path='data/epic/features/tbn.h5'),
    dict(type='TrimFeatures', num_frames=20),
]
words = [dict(type='VerbNounGraph', vocab_file='data/epic/word2int.json')]
loader = dict(num_workers=4, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(
    **loader,
    batch_size=64,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(
        type='mmvtr.EPICKitchensDataset', split='train', video_pipeline=frames, text_pipeline=words
    ),
)
test_dataloader = dict(
    **loader,
    batch_size=64,
    dataset=dict(
        type='mmvtr.EPICKitchensDataset', split='test', video_pipeline=frames, text_pipeline=words
    ),
)
test_cfg = dict(type='mmvtr.RetrievalLoop')
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.RelevanceMetric'),
    dict(
        type='mmvtr.LengthBiasMetric',
        min_gap=60,
        train=dict(
            type='mmvtr.EPICKitchensDataset', split='train', video_pipeline=[], text_pipeline=[]
        ),
    ),  # frames
]
# The relevance of a validation set is not published: the last epoch is tested.
