# NCL (Eq. 4 on Eq. 12) on CLIP2Video with cached features; its test, and the choice of its epoch,
# use the biases of the train queue (Sec. 3.4).
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
    '../../../configs/_base_/train_queue_planted.py',
]

model = dict(
    losses=dict(
        contrastive=dict(
            type='NormalizedContrastiveLoss', reads=('global', 'aligned'), iterations=4
        )
    )
)
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
