# DL-DKD++ on planted clips of three moments, from cached features.  Its teacher is another seed
# of the control, maxframe_planted_features.py, and has to be trained and stored first:
#   python tools/train.py projects/lab/configs/maxframe_planted_features.py \
#     --work-dir work_dirs/teachers/frames --cfg-options randomness.seed=10
#   python tools/export_teacher.py projects/lab/configs/maxframe_planted_features.py \
#     work_dirs/teachers/frames/epoch_12.pth --out data/planted_teacher \
#     --cfg-options model.similarity.shared_frame=True
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_untrimmed_features.py',
    '../../../configs/_base_/arl_features.py',
]

branches = ('inherit', 'explore')
model = dict(
    encoder=dict(encoder=dict(type='DLDKDEncoder'), names=branches),
    similarity=dict(levels=branches, weights=(0.7, 0.3), dots=True),
    # Stored vectors have unit length, so their inner products are cosines.
    supervision=dict(type='StoredFrameTeacher', name='planted', scale=20.0, epochs=8),
    losses=dict(
        _delete_=True,
        triplet=dict(type='RankingLoss', reads=branches, margin=0.2, average='anchors'),
        inherit_nce=dict(
            type='SoftLabelContrastiveLoss',
            reads=('inherit_dot',),
            rate=80.0,
            epochs=8,
            loss_weight=0.04,
        ),
        explore_nce=dict(
            type='SoftLabelContrastiveLoss',
            reads=('explore_dot',),
            follows='self',
            rate=80.0,
            epochs=8,
            loss_weight=0.04,
        ),
    ),
    objectives=dict(
        distillation=dict(
            type='FrameDistillation', teacher='planted', rate=0.6, reduction='mean', epochs=8
        )
    ),
)
train_dataloader = dict(
    dataset=dict(
        video_pipeline=[
            dict(type='LoadFeatures', path='data/planted_features/untrimmed'),
            dict(type='LoadFrameVectors', stores=dict(planted='data/planted_teacher/video')),
        ],
        text_pipeline=[
            dict(type='WordTokenize', vocab_file='data/planted/vocab.txt'),
            dict(type='LoadVectors', side='text', stores=dict(planted='data/planted_teacher/text')),
        ],
        epoch_unit='text',  # 200 steps are too few for the inner products
    )
)
custom_hooks = [dict(type='mmvtr.MomentsHook')]
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_SumR'))
train_cfg = dict(max_epochs=8, val_interval=2)
