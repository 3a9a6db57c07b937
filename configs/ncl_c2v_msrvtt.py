# NCL on CLIP2Video, MSR-VTT 1k-A: not in its paper.  The loss normalises both matrices, the test
# their mean, the score.
_base_ = ['c2v_msrvtt.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
