# ARL's two branches without ambiguity detection, on planted clips of three moments: max over frames
# (Eq. 3), averaged (Eq. 13).  The baseline of arl_planted_features.py.
_base_ = '../../../configs/arl_planted_features.py'

model = dict(supervision=None)
custom_hooks = [dict(type='mmvtr.MomentsHook')]
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_SumR'))
train_cfg = dict(val_interval=6)
