# Causal intervention on frame length with NCL's loss (Eq. 4 on Eq. 12) in its members: no paper has
# both.  A train queue is of one model, so only the transductive biases stand beside the raw scores.
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/planted_confound_features.py',
    '_base_/c2v_features.py',
]

losses = dict(
    contrastive=dict(type='NormalizedContrastiveLoss', reads=('global', 'aligned'), iterations=4)
)
model = dict(
    _delete_=True,
    type='mmvtr.BackdoorRetriever',
    members=[dict(_base_.model, losses=losses)] * 2,
)
train_dataloader = dict(
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(environments=dict(type='LengthSplit', parts=2)),
)
custom_hooks = [dict(type='mmvtr.MembersHook'), dict(type='mmvtr.SinkhornHook', queries='test')]
find_unused_parameters = True  # a step trains one member
train_cfg = dict(max_epochs=24, val_interval=6)
