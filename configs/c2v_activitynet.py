# CLIP2Video on ActivityNet paragraphs: the baseline of dvtr_c2v_activitynet.py.  64 frames and
# words.  DVTR Tab. VI has no such row.
_base_ = ['_base_/schedule_clip_5e.py', '_base_/activitynet.py', '_base_/c2v_vitb16.py']
# The field tests on val1 and validates on nothing: the last epoch is tested here, nothing is chosen
# on the test set.

model = dict(
    temperature=dict(init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
