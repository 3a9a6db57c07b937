# Causal intervention on frame length from the planted clips themselves: length tells of the action,
# and the other way round in test.  causal_planted_features.py has the controls, from features.
_base_ = ['c2v_planted.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', members=[{{_base_.model}}] * 2)
knobs = dict(general=0.0, length_confound=0.9)
train_dataloader = dict(
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(**knobs, records=dict(environments=dict(type='LengthSplit', parts=2))),
)
val_dataloader = dict(dataset=knobs)
test_dataloader = dict(dataset=knobs)
custom_hooks = [dict(type='mmvtr.MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
