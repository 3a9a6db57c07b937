# CLIP2Video on MSVD: the baseline of dvtr_c2v_msvd.py (DVTR Tab. IV).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msvd.py', '_base_/c2v_vitb16.py']

model = dict(
    temperature=dict(init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
