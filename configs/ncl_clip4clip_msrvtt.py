# NCL on CLIP4Clip, MSR-VTT 1k-A (NCL Tab. 3, App. B).
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msrvtt_1ka.py',
    '_base_/clip4clip_vitb32.py',
    '_base_/train_queue.py',
]

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
