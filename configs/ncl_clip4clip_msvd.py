# NCL on CLIP4Clip, MSVD (NCL Tab. 2, App. B).
_base_ = ['clip4clip_msvd.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
custom_hooks = [
    dict(type='QueryQueueHook', size=16384),
    dict(type='SinkhornHook', queries='train_queue', iterations=4),
    dict(type='ModalityGapHook'),  # App. D
]
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
