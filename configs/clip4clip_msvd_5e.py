# CLIP4Clip (meanP) on MSVD with its own schedule, 5 epochs with warm-up.  clip4clip_msvd.py has the
# 3 epochs without that NCL found on val (App. B).
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msvd.py',
    '_base_/clip4clip_vitb32.py',
    '_base_/train_queue.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))
