# Causal intervention on frame length, HGR on MSR-VTT 1k-A.  The paper's parts are 5,950 and 3,050
# videos (App. C.1), as the mean length of the test set would nearly give; here by the train mean.
_base_ = ['hgr_msrvtt.py']

model = dict(_delete_=True, type='BackdoorRetriever', members=[{{_base_.model}}] * 2)
train_dataloader = dict(
    batch_sampler=dict(type='EnvironmentBatchSampler'),
    dataset=dict(environments=dict(type='LengthSplit', parts=2, unit='seconds')),
)
custom_hooks = [dict(type='MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
