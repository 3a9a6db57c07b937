# NCL on CLIP4Clip, ActivityNet paragraphs (NCL Tab. 1 and 5, App. B).
_base_ = ['clip4clip_activitynet.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
