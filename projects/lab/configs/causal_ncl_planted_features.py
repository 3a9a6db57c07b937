# Causal intervention on frame length with NCL's loss (Eq. 4 on Eq. 12) in its members: no paper
# combines the two.  A train queue belongs to one model, so only transductive biases are reported
# besides the raw scores.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_confound_features.py',
    '../../../configs/_base_/causal_features.py',
]

losses = dict(
    contrastive=dict(type='NormalizedContrastiveLoss', reads=('global', 'aligned'), iterations=4)
)
model = dict(members=[{**_base_.model.members[0], 'losses': losses}] * 2)
custom_hooks = [
    dict(type='mmvtr.MembersHook'),
    dict(type='mmvtr.SinkhornHook', queries='test', temperature='model'),
]
train_dataloader = dict(
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(records=dict(environments=dict(type='LengthSplit', parts=2))),
)
train_cfg = dict(max_epochs=24, val_interval=6)
