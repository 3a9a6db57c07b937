# CLIP2Video on VATEX, HGR's split: the baseline of dvtr_c2v_vatex.py, which says what list the row
# "CLIP2Video" of DVTR Tab. V was tested on.
_base_ = ['_base_/schedule_clip_5e.py', '_base_/vatex.py', '_base_/c2v_vitb16.py']

model = dict(
    temperature=dict(init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
