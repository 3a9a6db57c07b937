# Flickr8k without pixels: captions #0 and #1 are the item, as word vectors; #3 and #4 are the
# queries in training, and #2, which people have judged, in dev and test
# (projects/lab/evidence/pages/judged_training.md). projects/lab/flickr8k_words.py makes the word
# vectors, from item captions of train images.
_base_ = ['../../../../configs/_base_/schedule_planted.py']

# PYTHONPATH=projects/lab/evidence
custom_imports = dict(
    imports=['study_parts.flickr8k', 'study_parts.caption_items'], allow_failed_imports=False
)

root, words = 'data/flickr8k', 'data/flickr8k_words'
corpus = dict(
    type='mmvtr.Flickr8kCaptionsDataset',
    ann_root=root,
    video_pipeline=[dict(type='CaptionFrames', words=words)],
    text_pipeline=[dict(type='CaptionWords', words=words)],
)
collate_fn = dict(type='mmvtr.collate_retrieval')

train_dataloader = dict(
    batch_size=128,
    sampler=dict(type='mmvtr.EpochSampler'),
    collate_fn=collate_fn,
    dataset=dict(**corpus, split='train'),
)
val_dataloader = dict(batch_size=500, collate_fn=collate_fn, dataset=dict(**corpus, split='dev'))
crowd = dict(type='mmvtr.read_flickr8k_crowd', path=f'{root}/CrowdFlowerAnnotations.txt')
test_dataloader = dict(
    batch_size=500, collate_fn=collate_fn, dataset=dict(**corpus, split='test', judgments=crowd)
)

val_cfg = test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric')]
# relevant: more than half of the annotators say yes
test_evaluator = [*val_evaluator, dict(type='mmvtr.JudgedMetric', at_least=0.5 + 1e-6)]
custom_hooks = [dict(type='mmvtr.ScoresFileHook')]

# CLIP4Clip's pooling over word vectors instead of frames; both towers start from the same vectors.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='CLIP4Clip',
        frames=dict(type='FeatureFrames', in_dim=128, dim=128, identity=True),
        text=dict(type='WordVectors', words=2179, dim=128, pretrained=f'{words}/words.npy'),
    ),
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.07),
)

# 6 passes over each text at a batch of 128 (judged_training.md, see above); otherwise as on planted
# clips.
train_cfg = dict(max_epochs=6, val_interval=2)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=1, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=1, eta_min_ratio=0.01, convert_to_iter_based=True),
]
