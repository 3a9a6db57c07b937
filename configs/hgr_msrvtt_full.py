# HGR on MSR-VTT Full: 6,513 / 497 / 2,990 videos (frame-length paper, Tab. 9).  There is a
# validation set, and the epoch of its best rsum is tested.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_hgr.py', '_base_/hgr.py']
# 1k-A has no validation set: the last epoch is tested, and nothing is chosen on the test set.

loader = dict(batch_size=64)
train = dict(split='full_train')
model = dict(
    encoder=dict(
        frames=dict(in_dim=2048), text=dict(words=20000, pretrained='data/msrvtt/word_vectors.npy')
    )
)
train_dataloader = dict(dataset=train)
val_dataloader = dict(
    num_workers=4,
    collate_fn=dict(type='mmvtr.collate_retrieval'),
    batch_size=64,
    dataset=dict(
        type='mmvtr.MSRVTTDataset',
        video_pipeline=[
            dict(type='LoadFeatures', path='data/msrvtt/features/resnet152.h5'),
            dict(type='TrimFeatures', num_frames=20),
        ],
        text_pipeline=[
            dict(
                type='PartOfSpeechGraph',
                vocab_file='data/msrvtt/word2int.json',
                method='rules',
                links=True,
            )
        ],
        classes=dict(type='CaptionClasses', parser='rules'),
        split='full_val',
    ),
)
test_dataloader = dict(dataset=dict(split='full_test'))
val_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.RelevanceMetric')]
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.RelevanceMetric'),
    dict(
        type='mmvtr.LengthBiasMetric',
        min_gap=1,
        train=dict(
            type='mmvtr.MSRVTTDataset',
            video_pipeline=[
                dict(type='LoadFeatures', path='data/msrvtt/features/resnet152.h5'),
                dict(type='TrimFeatures', num_frames=20),
            ],
            text_pipeline=[
                dict(
                    type='PartOfSpeechGraph',
                    vocab_file='data/msrvtt/word2int.json',
                    method='rules',
                    links=True,
                )
            ],
            classes=dict(type='CaptionClasses', parser='rules'),
            split='full_train',
        ),
    ),
]
