# CLIP4Clip (meanP) on MSR-VTT 1k-A: the baseline of ncl_clip4clip_msrvtt.py.
_base_ = [
    '_base_/msrvtt_1ka.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
    '_base_/train_queue.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))
