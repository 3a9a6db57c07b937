# CLIP2Video on ActivityNet paragraphs: the baseline of dvtr_c2v_activitynet.py.  64 frames and
# words.  DVTR Tab. VI has no such row.
_base_ = ['_base_/schedule_clip_5e.py', '_base_/activitynet.py', '_base_/c2v_vitb16.py']

model = dict(
    temperature=dict(init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
