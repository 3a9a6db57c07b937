# NCL on CLIP4Clip, MSR-VTT 1k-A (NCL Tab. 3, App. B).
_base_ = ['clip4clip_msrvtt.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
custom_hooks = [
    dict(type='QueryQueueHook', size=16384),
    dict(type='SinkhornHook', queries='train_queue', iterations=4),
    dict(type='ModalityGapHook'),  # App. D
]
