# CLIP2Video on MSR-VTT Full: the baseline of dvtr_c2v_msrvtt_full.py (DVTR Tab. III).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_full.py', '_base_/c2v_vitb16.py']

model = dict(
    temperature=dict(init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
