# NCL's loss (Eq. 4 on Eq. 12); its test, and the choice of its epoch, use the train queue's biases.
_base_ = ['_base_/captions_flickr8k.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=2048),
    dict(type='mmvtr.SinkhornHook', queries='train_queue'),
    dict(type='mmvtr.ScoresFileHook'),
]
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
