# NCL on CLIP4Clip, MSVD (NCL Tab. 2, App. B).
_base_ = ['clip4clip_msvd.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
