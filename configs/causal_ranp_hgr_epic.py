# Causal intervention on frame length over RANP, EPIC-KITCHENS-100 (Tab. 2); the split is that of
# causal_hgr_epic.py.
_base_ = ['ranp_hgr_epic.py']

model = dict(_delete_=True, type='BackdoorRetriever', members=[{{_base_.model}}] * 2)
train_dataloader = dict(
    batch_sampler=dict(type='EnvironmentBatchSampler'),
    dataset=dict(environments=dict(type='LengthSplit', parts=2)),
)
custom_hooks = [dict(type='MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
