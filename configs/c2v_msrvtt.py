# CLIP2Video on MSR-VTT 1k-A: the baseline of dvtr_c2v_msrvtt.py and ncl_c2v_msrvtt.py.
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msrvtt_1ka.py',
    '_base_/c2v_vitb16.py',
    '_base_/train_queue.py',
]

model = dict(
    temperature=dict(init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
