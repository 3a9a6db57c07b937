# NCL's loss (Eq. 4 on Eq. 12); tested with its biases, those of the train queue, and its epoch is
# chosen with them.
_base_ = ['_base_/captions_flickr8k.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=2048),
    dict(type='mmvtr.SinkhornHook', queries='train_queue'),
    dict(type='mmvtr.ScoresFileHook'),
]
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
