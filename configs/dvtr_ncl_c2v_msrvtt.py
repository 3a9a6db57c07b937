# DVTR's weights (Eq. 13) on NCL's normalised scores (Eq. 12), MSR-VTT 1k-A: no paper has both.
_base_ = ['dvtr_c2v_msrvtt.py', '_base_/train_queue.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
