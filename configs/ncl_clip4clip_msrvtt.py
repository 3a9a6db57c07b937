# NCL on CLIP4Clip, MSR-VTT 1k-A (NCL Tab. 3, App. B).
_base_ = ['clip4clip_msrvtt.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
