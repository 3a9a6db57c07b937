# CLIP2Video at DVTR's fixed temperature of .07: beside dvtr_c2v_msrvtt.py only debiasing differs.
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msrvtt_1ka.py',
    '_base_/c2v_vitb16.py',
    '_base_/train_queue.py',
]

model = dict(
    temperature=dict(learnable=False),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
