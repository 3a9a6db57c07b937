# CLIP2Video on MSR-VTT 1k-A without debiasing: the baseline of dvtr_c2v_msrvtt.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_1ka.py',
    '_base_/schedule_clip_5e.py',
    '_base_/c2v_vitb16.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))))
