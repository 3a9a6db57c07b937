# An oracle, not a method: in clips of three moments every soft positive is known and not a
# negative.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_untrimmed_features.py',
    '../../../configs/_base_/arl_features.py',
]

model = dict(supervision=dict(type='OracleSupervision', treat='ignore'))
train_dataloader = dict(dataset=dict(oracle=True))
custom_hooks = [dict(type='mmvtr.MomentsHook')]
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_SumR'))
train_cfg = dict(val_interval=6)
